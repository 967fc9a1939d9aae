"""The log engines behind `bootstrap.servers`: starting and stopping the embedded broker or Apache Kafka."""
