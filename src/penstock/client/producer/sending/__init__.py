"""From a record to librdkafka's queue: encoding, batches, backpressure."""
