"""What a partition knows of its producers: sequence numbers, epochs, open transactions."""
