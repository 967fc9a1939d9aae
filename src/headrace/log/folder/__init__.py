"""All logs of a broker in one data folder: its lock, its topics, periodic upkeep."""
