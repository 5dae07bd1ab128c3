"""Clients of a cluster. They speak the protocol and nothing else, so they work with any Kafka.

admin/          Admin, blocking and for asyncio: every admin API, on our own codec
producer/       Producer, on librdkafka
consumer/       Consumer, on librdkafka
raw/            record batches as bytes, read and written without librdkafka; transactions
settings/       Kafka's client keys: a table that says what becomes of each
serde/          values <-> bytes, with a schema registry or without
cluster/        which node to ask, and how long
transport/      one connection: sockets, TLS, SASL
failures/       what clients raise, and the next step

What several of them speak of is here: values.py (brokers, topics, offsets), records.py,
namespace.py; interceptors.py and partitioners.py (code of the caller's), python_paths.py (how a
configuration names it); keywords.py (arguments that a client does not take); calls.py (a thread for
what blocks), asking.py (what serializers have to ask first), forks.py; echo.py (librdkafka's log in
ours), doubts.py (whether security.protocol is wrong for the port).
"""
