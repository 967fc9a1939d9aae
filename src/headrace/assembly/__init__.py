"""Wires the parts together and runs them as processes; the supervisor and the demo.

Never: rules of any part.
"""
