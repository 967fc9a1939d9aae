"""Groups, offsets and transactions as pure state machines: decisions as values, records as the only truth."""
