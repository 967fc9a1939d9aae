-- Events as posted, and as Avro, with the date by which the lake is partitioned.

DEFINE events_topic = 'events';
SET 'auto.offset.reset' = 'earliest';

CREATE STREAM IF NOT EXISTS events (
  user_key VARCHAR KEY,
  event_type VARCHAR,
  event_version VARCHAR,
  user_id VARCHAR,
  listing_id VARCHAR,
  server_time VARCHAR,
  device_type VARCHAR
) WITH (KAFKA_TOPIC = '${events_topic}', VALUE_FORMAT = 'JSON');

CREATE STREAM IF NOT EXISTS events_avro WITH (KAFKA_TOPIC = '${events_topic}_avro', VALUE_FORMAT = 'AVRO') AS
  SELECT *, SUBSTRING(server_time, 0, 10) AS server_date
  FROM events;
