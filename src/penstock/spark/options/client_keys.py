"""The `kafka.*` options: the client keys of Kafka that a job may set, and their effect.

A key is used, has no effect because nothing here depends on it, or is rejected as by Spark's own
source and sink. Any other key is ignored with a warning, as by Kafka's clients. A key that is close
to a used one is rejected as misspelt.
"""

from collections.abc import Mapping, Sequence

from penstock.spark.options.option_bag import MISSPELT, BadOption, OptionBag, likeness, warn_once

PREFIX = "kafka."
BOOTSTRAP = "bootstrap.servers"

# Keys of the connection: client/transport/ reads them.
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

# Keys of absent machinery: batches leave when they are full or a task ends, the writer limits its
# buffers, and nothing is polled in the background.
WITHOUT_EFFECT = (
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.include.jmx.reporter",
    "buffer.memory",
    "client.dns.lookup",
    "client.rack",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "enable.idempotence",
    "enable.metrics.push",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "security.providers",
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
    "partitioner.ignore.keys": "give the rows a partition column instead",
    "transaction.two.phase.commit.enable": "the sink takes it where the cluster offers it",
    "metric.reporters": "Java classes cannot run in a Python source or sink",
}


def client_properties(bag: OptionBag, side: tuple[str, ...]) -> dict[str, str]:
    """Return Kafka's keys without the prefix, checked; `side` is READER or WRITER."""
    properties = bag.prefixed(PREFIX)
    if not properties.get(BOOTSTRAP, "").strip():
        bare = bag.text(BOOTSTRAP)
        if bare is not None:
            raise BadOption(
                f'there is no option {BOOTSTRAP}: say option("{PREFIX}{BOOTSTRAP}", "{bare}"). '
                f"Keys of Kafka's clients have {PREFIX} before them"
            )
        raise BadOption(f"{PREFIX}{BOOTSTRAP} is missing, e.g. 127.0.0.1:9092")
    other = WRITER if side is READER else READER
    for name in properties:
        if name in REFUSED:
            raise BadOption(f"kafka.{name} cannot be set: {REFUSED[name]}")
        known = name in CONNECTION or name in side or name.startswith(CONNECTION_PREFIXES)
        if not known and name not in WITHOUT_EFFECT and name not in other:
            _pass_over(name, (*CONNECTION, *side))
    return properties


def _pass_over(name: str, used: Sequence[str]) -> None:
    meant = likeness(name, used, MISSPELT)
    if meant is not None:
        raise BadOption(f"there is no key kafka.{name}; is kafka.{meant} meant?")
    near = likeness(name, (*used, *WITHOUT_EFFECT))
    hint = f"; is kafka.{near} meant?" if near else ""
    warn_once(f"kafka.{name} is not known here and has no effect{hint}")


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
