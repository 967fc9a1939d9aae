-- Events as they are posted, and as Avro, with the date by which the lake is partitioned.
-- The platform runs these statements when its log has none yet. ${events_topic} is the setting `events_topic`.

SET 'auto.offset.reset' = 'earliest';

CREATE STREAM events (
  user_key VARCHAR KEY,
  event_type VARCHAR,
  event_version VARCHAR,
  user_id VARCHAR,
  listing_id VARCHAR,
  server_time VARCHAR,
  device_type VARCHAR
) WITH (KAFKA_TOPIC = '${events_topic}', VALUE_FORMAT = 'JSON');

CREATE STREAM events_avro WITH (KAFKA_TOPIC = '${events_topic}_avro', VALUE_FORMAT = 'AVRO') AS
  SELECT *, SUBSTRING(server_time, 0, 10) AS server_date
  FROM events;
