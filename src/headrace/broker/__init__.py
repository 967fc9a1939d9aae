"""The embedded broker: a server that speaks the Kafka protocol over the logs of one data folder.

Never: storage formats. Produce and Fetch never look into records.
"""
