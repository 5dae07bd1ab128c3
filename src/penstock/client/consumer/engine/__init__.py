"""The engine of a consumer: one thread that polls librdkafka, and its state."""
