"""What -X, the environment and profiles say, as settings of one client.

The same keys go to every client of a command: a key of another kind of client is no mistake. What
was typed and does nothing is told.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.cli.access import Access
from penstock.cli.output import CommandFailed, ExitCode, note
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
    """For confluent_kafka's Producer; `own` are the command's, by Kafka's names."""
    try:
        settings = producer_settings(_joined(own, access.settings), bootstrap=access.bootstrap)
    except SettingRefused as refused:
        raise _usage(refused) from None
    if settings.transactional_id is not None:
        raise CommandFailed(
            "-X transactional.id: this command writes no transactions", ExitCode.USAGE
        )
    _tell(access, [*settings.ignored, *_serdes(settings)])
    return {**settings.rdkafka, **_partitioner(settings.partitioner)}


def _partitioner(said: object) -> dict[str, str]:
    """Only librdkafka's own: records go to it in batches."""
    if said is None:
        return {}
    if said not in PARTITIONERS:
        raise CommandFailed(
            f"-X partitioner.class: {said} is not one of {', '.join(PARTITIONERS)}", ExitCode.USAGE
        )
    return {"partitioner": str(said)}


def consumer_values(
    access: Access, own: Mapping[str, str | int | bool]
) -> tuple[dict[str, Any], ConsumerSettings]:
    """For confluent_kafka's Consumer, and what it stands for."""
    try:
        settings = consumer_settings(_joined(own, access.settings), bootstrap=access.bootstrap)
    except SettingRefused as refused:
        raise _usage(refused) from None
    _tell(access, [*settings.ignored, *_serdes(settings)])
    return {**settings.rdkafka}, settings


def _joined(own: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """What was given counts before the command's own, under whichever name it was given."""
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


def _usage(refused: SettingRefused) -> CommandFailed:
    return CommandFailed(f"-X {refused}", ExitCode.USAGE)
