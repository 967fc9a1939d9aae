"""Conversations with a broker, the same with both engines; `test_same_answers.py` plays and compares them."""
