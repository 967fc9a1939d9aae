"""What a partition knows about its producers: sequence numbers, epochs, transactions, snapshots."""
