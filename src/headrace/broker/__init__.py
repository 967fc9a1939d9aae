"""The embedded broker: a server that speaks the Kafka protocol over the logs of one data folder."""
