"""A mixed load with kills, its history checked. `make load` runs it for minutes; a short one is a test."""
