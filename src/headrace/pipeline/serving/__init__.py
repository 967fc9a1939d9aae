"""Serves statements in the gateway: carries them out and answers those that ask."""
