"""Groups of the consumer protocol (KIP-848)."""
