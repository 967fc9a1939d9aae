"""The log engines behind `bootstrap.servers`."""
