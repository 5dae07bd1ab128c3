"""Code shared by producers and consumers: threads, forks, librdkafka's log, schema lookups."""
