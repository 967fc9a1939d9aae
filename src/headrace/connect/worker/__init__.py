"""Runs connectors: keeps each as it is wanted, its tasks in threads, and writes down what becomes of them."""
