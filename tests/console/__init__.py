"""Tests of the console: its assets, its pages, their live streams, and all of it in a browser."""
