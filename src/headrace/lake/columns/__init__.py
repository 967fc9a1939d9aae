"""Rows of tables made in columns: whole batches of a topic become data files, without a step for each record

Never: pyspark; a record that is not as expected. Whoever asks then takes the way of single rows.
"""
