"""JSON Schema: whether a text is valid, and whether what one schema accepts is accepted by another."""
