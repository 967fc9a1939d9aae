"""Protobuf schemas: `.proto` texts and descriptors, and whether data of one can be read with another."""
