"""Executes statements in the gateway, and answers queries."""
