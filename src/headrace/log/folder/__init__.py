"""All logs of a broker in one data folder: who owns it, which topics there are, periodic upkeep."""
