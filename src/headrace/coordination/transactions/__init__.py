"""Transactions: InitProducerId, AddPartitionsToTxn, EndTxn, timeouts."""
