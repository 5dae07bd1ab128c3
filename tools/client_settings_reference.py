"""Writes the reference of client settings, docs/reference/client-configuration.md, from the tables.

python -m tools.client_settings_reference > docs/reference/client-configuration.md
"""

from collections.abc import Iterable, Mapping

from penstock.client.serde.keys import SERDE_KEYS
from penstock.client.settings import (
    keys_admin,
    keys_connection,
    keys_consumer,
    keys_producer,
    keys_rdkafka,
    keys_security,
)
from penstock.client.settings.consumer import FETCH_BACKOFF_MS
from penstock.client.settings.row import SettingRow

_HEAD = """\
# Client configuration keys

Made from the code by `make reference`; do not edit.

`Producer`, `Consumer` and `Admin` take Kafka's own names, with the values that a Java client would
get: Python's numbers and truth values, or text. Every key of Apache Kafka 4.3.1's clients is here,
with its fate:

- **passed on**: librdkafka knows it by this name and means the same by it;
- **translated**: librdkafka gets it in its own words;
- **done here**: the client does it itself;
- **no effect**: it may be said, and the client logs a warning that says why it changes nothing;
- **refused**: it would promise what is not kept; the error says the way out, as the table does.

Where librdkafka takes less than Kafka, a value is brought to its limit, and the warning says so.
Unknown keys are refused, with the nearest name. Keys of another client are ignored with a warning,
so that one file can serve all. Where a key takes a class, give the object, the class, or its path
in Python (`package.module:name`); Java's names of its own serializers, partitioners and assignors
are understood.
"""


def reference() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for title, rows in (
        ("Producers", keys_producer.KEYS),
        ("Consumers", keys_consumer.KEYS),
        ("Connection, of producers and consumers", keys_connection.KEYS),
        ("Security, of all clients", keys_security.KEYS),
        ("Admin", keys_admin.KEYS),
    ):
        parts += [f"\n## {title}\n", *_table(rows)]
    parts += ["\n## Serializers and the schema registry\n", *_serdes()]
    parts += ["\n## librdkafka's own names\n", *_rdkafka()]
    return "\n".join(parts) + "\n"


def _table(rows: Iterable[SettingRow]) -> Iterable[str]:
    yield "| key | type | default here | fate | |"
    yield "|---|---|---|---|---|"
    for row in sorted(rows, key=lambda each: each.name):
        default = f"`{row.default}`" if row.default else ""
        yield _line(f"`{row.name}`", _type(row), default, row.fate.value, row.about)


def _type(row: SettingRow) -> str:
    if row.words:
        return ", ".join(f"`{word}`" for word in row.words)
    bounds = [
        f"from {row.low}" if row.low is not None and row.low > -(2**31) else "",
        f"to {row.high}" if row.high is not None and row.high < 2**31 - 1 else "",
    ]
    return " ".join(filter(None, (row.kind.value, *bounds)))


def _serdes() -> Iterable[str]:
    yield "Confluent's, for those who name its serializers; in Python say `serde.avro(...)`.\n"
    yield "| key | |"
    yield "|---|---|"
    for name, about in SERDE_KEYS.items():
        yield _line(f"`{name}`", about)
    yield _line("`schema.registry.ssl.*`", "TLS to the registry, as the keys `ssl.*`")


def _rdkafka() -> Iterable[str]:
    yield "Taken as another name of one of Kafka's keys:\n"
    yield from _pairs("librdkafka's", "Kafka's", keys_rdkafka.ALIASES)
    yield _line("`message.max.bytes`", "`max.request.size`, of producers")
    yield "\nPassed on as they are:\n"
    yield "| of | keys |"
    yield "|---|---|"
    both = frozenset(keys_rdkafka.OF_BOTH)
    for who, names in (
        ("both", keys_rdkafka.OF_BOTH),
        ("producers", tuple(n for n in keys_rdkafka.OF_PRODUCERS if n not in both)),
        ("consumers", tuple(n for n in keys_rdkafka.OF_CONSUMERS if n not in both)),
    ):
        yield _line(who, ", ".join(f"`{name}`" for name in names))
    yield f"\nConsumers set `fetch.queue.backoff.ms` to {FETCH_BACKOFF_MS} unless told otherwise."
    yield "\nRefused, because the clients here have them for themselves or cannot keep them:\n"
    yield "| key | way out |"
    yield "|---|---|"
    for name, way_out in keys_rdkafka.TAKEN.items():
        yield _line(f"`{name}`", way_out)


def _pairs(left: str, right: str, pairs: Mapping[str, str]) -> Iterable[str]:
    yield f"| {left} | {right} |"
    yield "|---|---|"
    for one, other in pairs.items():
        yield _line(f"`{one}`", f"`{other}`")


def _line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    print(reference(), end="")
