"""Client settings from -X, the environment and the profile.

All clients of a command get the same keys, so keys of other clients are ignored. A typed key
without effect prints a note.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.cli.connection.access import Access
from penstock.cli.terminal.output import CommandFailed, WrongUsage, note
from penstock.client.settings import (
    ConsumerSettings,
    ProducerSettings,
    SettingRefused,
    consumer_settings,
    producer_settings,
)
from penstock.client.settings.keys_rdkafka import ALIASES

PARTITIONERS = (
    "murmur2_random",
    "murmur2",
    "consistent_random",
    "consistent",
    "fnv1a_random",
    "fnv1a",
    "random",
)
_IN_BYTES = "records are bytes here, as they come"


def producer_values(access: Access, own: Mapping[str, str | int | bool]) -> dict[str, Any]:
    """Return settings for confluent_kafka's Producer; `own` are the command's, in Kafka's names."""
    try:
        settings = producer_settings(_joined(own, access.settings), bootstrap=access.bootstrap)
    except SettingRefused as rejected:
        raise _usage(rejected) from None
    if settings.transactional_id is not None:
        raise WrongUsage("-X transactional.id: this command writes no transactions")
    _tell(access, [*settings.ignored, *_serdes(settings)])
    return {**settings.rdkafka, **_partitioner(settings.partitioner)}


def _partitioner(said: object) -> dict[str, str]:
    """Return librdkafka's partitioner; others cannot work on batches."""
    if said is None:
        return {}
    if said not in PARTITIONERS:
        raise WrongUsage(f"-X partitioner.class: {said} is not one of {', '.join(PARTITIONERS)}")
    return {"partitioner": str(said)}


def consumer_values(
    access: Access, own: Mapping[str, str | int | bool]
) -> tuple[dict[str, Any], ConsumerSettings]:
    """Return settings for confluent_kafka's Consumer, and the settings that they come from."""
    try:
        settings = consumer_settings(_joined(own, access.settings), bootstrap=access.bootstrap)
    except SettingRefused as rejected:
        raise _usage(rejected) from None
    _tell(access, [*settings.ignored, *_serdes(settings)])
    return {**settings.rdkafka}, settings


def _joined(own: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Return the given settings over the command's own; aliases of a key count as the key."""
    said = {ALIASES.get(key, key) for key in given}
    return {**{key: value for key, value in own.items() if key not in said}, **given}


def _serdes(settings: ProducerSettings | ConsumerSettings) -> list[tuple[str, str]]:
    suffix = "serializer" if isinstance(settings, ProducerSettings) else "deserializer"
    names = [f"{part}.{suffix}" for part in ("key", "value")]
    given = [getattr(settings, name.replace(".", "_")) for name in names]
    return [(name, _IN_BYTES) for name, said in zip(names, given, strict=True) if said is not None]


def _tell(access: Access, ignored: Iterable[tuple[str, str]]) -> None:
    for key, why in ignored:
        if key in access.typed:
            note(f"note: {key} has no effect here: {why}")


def _usage(rejected: SettingRefused) -> CommandFailed:
    return WrongUsage(f"-X {rejected}")
