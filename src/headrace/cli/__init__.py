"""The `headrace` command: thin commands over what the folders below offer."""
