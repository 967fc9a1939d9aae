"""Wires the parts together and runs them as processes. The only folder that knows all the others."""
