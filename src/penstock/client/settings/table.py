"""All keys by client and name, and the diagnosis of an unknown name."""

from collections.abc import Mapping
from enum import StrEnum

from penstock.client.serde.keys import REGISTRY_PREFIX, SERDE_KEYS
from penstock.client.settings import (
    keys_admin,
    keys_connection,
    keys_consumer,
    keys_producer,
    keys_rdkafka,
    keys_security,
)
from penstock.client.settings.row import SettingRow

LIKENESS = 0.6


class Client(StrEnum):
    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


def _by_name(*groups: tuple[SettingRow, ...]) -> Mapping[str, SettingRow]:
    return {row.name: row for rows in groups for row in rows}


ROWS: Mapping[Client, Mapping[str, SettingRow]] = {
    Client.PRODUCER: _by_name(keys_connection.KEYS, keys_security.KEYS, keys_producer.KEYS),
    Client.CONSUMER: _by_name(keys_connection.KEYS, keys_security.KEYS, keys_consumer.KEYS),
    Client.ADMIN: _by_name(keys_admin.KEYS, keys_security.KEYS),
}
# librdkafka's names that pass unchanged; Admin understands a few of them.
PASSING: Mapping[Client, frozenset[str]] = {
    Client.PRODUCER: frozenset(keys_rdkafka.OF_PRODUCERS),
    Client.CONSUMER: frozenset(keys_rdkafka.OF_CONSUMERS),
    Client.ADMIN: frozenset(
        {
            *keys_rdkafka.ADMIN_MEANS,
            "sasl.username",
            "sasl.password",
            "ssl.certificate.location",
            "ssl.key.location",
        }
    ),
}
# Keys of Kafka's older clients, without an effect in newer ones.
RETIRED: Mapping[str, str] = {
    "auto.include.jmx.reporter": "Kafka 4 no longer has it",
    "block.on.buffer.full": "Kafka no longer has it; max.block.ms says how long sending waits",
    "internal.leave.group.on.close": "Kafka no longer has it",
    "metadata.fetch.timeout.ms": "Kafka no longer has it; max.block.ms says how long sending waits",
    "timeout.ms": "Kafka no longer has it; request.timeout.ms says how long an answer takes",
}


def is_for_serdes(name: str) -> bool:
    return name in SERDE_KEYS or name.startswith(REGISTRY_PREFIX)


def other_client(name: str, client: Client) -> Client | None:
    """Return the client that has this key, if it is another one."""
    for each in Client:
        if each is not client and (name in ROWS[each] or name in PASSING[each]):
            return each
    return None


def nearest(name: str, client: Client) -> str | None:
    """Return the most similar known key."""
    from difflib import get_close_matches

    known = [*ROWS[client], *sorted(PASSING[client]), *keys_rdkafka.ALIASES, *SERDE_KEYS]
    found = get_close_matches(name.lower().replace("_", "."), known, n=1, cutoff=LIKENESS)
    return found[0] if found else None
