"""Avro schemas: whether a text is valid, its canonical form, and whether data of one can be read with another."""
