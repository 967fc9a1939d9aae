"""Carries statements out: what becomes of each, and the answers to those that ask."""
