"""Avro: whether a text is a schema, its canonical form, and whether data of one can be read with another."""
