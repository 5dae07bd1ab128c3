"""The `kafka.*` options: what of Kafka's client keys a job may set, and what each does here.

A key is used, taken without effect because there is nothing here that it could change, or refused
where Spark's own source and sink refuse it. Any other is refused with its name, since a misspelt
key that is silently ignored costs hours.
"""

from collections.abc import Mapping

from penstock.spark.options.reading import BadOption, OptionBag

PREFIX = "kafka."

# Of the connection itself: client/security.py and client/connection.py read them.
CONNECTION = (
    "bootstrap.servers",
    "client.id",
    "request.timeout.ms",
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.oauthbearer.token.endpoint.url",
)
CONNECTION_PREFIXES = ("ssl.", "sasl.")

READER = (
    "group.id",
    "isolation.level",
    "max.partition.fetch.bytes",
    "check.crcs",
)
WRITER = (
    "acks",
    "batch.size",
    "compression.type",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "delivery.timeout.ms",
    "transaction.timeout.ms",
)

# Of machinery that is not here: batches leave when they are full or a task ends, buffers are
# bounded by the writer, and nothing is polled in the background.
WITHOUT_EFFECT = (
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "buffer.memory",
    "client.dns.lookup",
    "client.rack",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "enable.idempotence",
    "enable.metrics.push",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "heartbeat.interval.ms",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
)

REFUSED = {
    "auto.offset.reset": "say startingOffsets instead; offsets are kept by the query",
    "key.deserializer": "keys come as bytes; use DataFrame operations to decode them",
    "value.deserializer": "values come as bytes; use DataFrame operations to decode them",
    "key.serializer": "keys are bytes or strings; use DataFrame operations to encode them",
    "value.serializer": "values are bytes or strings; use DataFrame operations to encode them",
    "enable.auto.commit": "say group.id (without kafka.) and progress is committed to that group",
    "interceptor.classes": "Java classes cannot run in a Python source or sink",
    "transactional.id": "the sink makes its own; sink.id names the sink",
    "partitioner.class": "give the rows a partition column instead",
    "metric.reporters": "Java classes cannot run in a Python source or sink",
}


def client_properties(bag: OptionBag, side: tuple[str, ...]) -> dict[str, str]:
    """Kafka's keys without the prefix, checked; `side` is READER or WRITER."""
    properties = bag.prefixed(PREFIX)
    if not properties.get("bootstrap.servers", "").strip():
        raise BadOption("kafka.bootstrap.servers is missing, e.g. 127.0.0.1:9092")
    other = WRITER if side is READER else READER
    for name in properties:
        if name in REFUSED:
            raise BadOption(f"kafka.{name} cannot be set: {REFUSED[name]}")
        known = name in CONNECTION or name in side or name.startswith(CONNECTION_PREFIXES)
        if not known and name not in WITHOUT_EFFECT and name not in other:
            raise BadOption(f"kafka.{name} is not a key of Kafka's clients that is known here")
    return properties


def whole_property(properties: Mapping[str, str], name: str, default: int) -> int:
    value = properties.get(name)
    if value is None:
        return default
    try:
        return int(value.strip())
    except ValueError:
        raise BadOption(f"kafka.{name} is {value!r}; it takes a whole number") from None


def word_property(
    properties: Mapping[str, str], name: str, words: tuple[str, ...], default: str
) -> str:
    word = properties.get(name, default).strip().lower()
    if word not in words:
        raise BadOption(f"kafka.{name} is {word!r}; it takes {', '.join(words)}")
    return word
