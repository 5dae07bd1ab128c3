"""Clients of a cluster. They use only Kafka's protocol, so they work with any Kafka.

admin/          Admin, blocking and for asyncio: every admin API, on our own codec
producer/       Producer, on librdkafka
consumer/       Consumer, on librdkafka
raw/            record batches as bytes, read and written without librdkafka; transactions
settings/       Kafka's client keys: a table with the meaning of each
serde/          values <-> bytes, with a schema registry or without
cluster/        which node to ask, and how long
transport/      one connection: sockets, TLS, SASL
failures/       errors of clients, with the next step
runtime/        threads, forks, librdkafka's log, schema lookups

Shared modules: values.py (brokers, topics, offsets), records.py, namespace.py, interceptors.py and
partitioners.py (code of the application), keywords.py (unknown arguments).
"""
