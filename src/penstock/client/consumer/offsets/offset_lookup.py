"""Offset lookups at the brokers: by time, at the ends of partitions, of the group.

Every function blocks for at most its timeout.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.client.consumer.assignment.resolved_config import Position
from penstock.client.consumer.offsets.committing import rdkafka_partitions
from penstock.client.consumer.offsets.offset_tracker import PartitionKey
from penstock.client.failures import from_rdkafka

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RdkafkaConsumer

# Special timestamps of ListOffsets.
LATEST, EARLIEST = -1, -2


def milliseconds(moment: datetime) -> int:
    """Return milliseconds since 1970; raise ValueError for a time without a zone."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone: say datetime(..., tzinfo=UTC)")
    return int(moment.timestamp() * 1000)


def resolve(
    rdkafka: "RdkafkaConsumer", wanted: Mapping[PartitionKey, Position], timeout_s: float
) -> dict[PartitionKey, int]:
    """Return positions as offsets."""
    found: dict[PartitionKey, int] = {}
    moments: dict[PartitionKey, int] = {}
    for place, position in wanted.items():
        moment = _moment(position)
        if moment is None:
            assert isinstance(position, int), "what is no moment is an offset"
            found[place] = position
        else:
            moments[place] = moment
    if moments:
        found |= offsets_at(rdkafka, moments, timeout_s)
    return {place: found[place] for place in wanted}


def check(position: Position) -> Position:
    """Return the position; raise ValueError if it is invalid."""
    if _moment(position) is None and (not isinstance(position, int) or position < 0):
        raise ValueError(
            f"{position!r} is no position: say an offset, a datetime with its zone, "
            "'start' or 'end'"
        )
    return position


def _moment(position: Position) -> int | None:
    match position:
        case "start":
            return EARLIEST
        case "end":
            return LATEST
        case datetime():
            return milliseconds(position)
    return None


def offsets_at(
    rdkafka: "RdkafkaConsumer", moments: Mapping[PartitionKey, int], timeout_s: float
) -> dict[PartitionKey, int]:
    """Return the first offset at or after a time, or else the end."""
    found = _list_offsets(rdkafka, moments, timeout_s)
    beyond = {place: LATEST for place, offset in found.items() if offset < 0}
    if beyond:
        found |= _list_offsets(rdkafka, beyond, timeout_s)
    return found


def first_offsets_after(
    rdkafka: "RdkafkaConsumer", moments: Mapping[PartitionKey, int], timeout_s: float
) -> dict[PartitionKey, int | None]:
    """Return the first offset at or after a time, or None."""
    found = _list_offsets(rdkafka, moments, timeout_s)
    return {place: offset if offset >= 0 else None for place, offset in found.items()}


def _list_offsets(
    rdkafka: "RdkafkaConsumer", moments: Mapping[PartitionKey, int], timeout_s: float
) -> dict[PartitionKey, int]:
    from confluent_kafka import KafkaException

    try:
        answered = rdkafka.offsets_for_times(rdkafka_partitions(moments), timeout_s)
    except KafkaException as error:
        raise from_rdkafka(error, about="offsets were not told") from error
    for each in answered:
        if each.error:
            about = f"offsets of {each.topic}-{each.partition} were not told"
            raise from_rdkafka(each.error, about=about)
    return {(each.topic, each.partition): each.offset for each in answered}


def committed_offsets(
    rdkafka: "RdkafkaConsumer", places: Collection[PartitionKey], timeout_s: float
) -> dict[PartitionKey, int | None]:
    """Return the group's committed offsets; None where there is none."""
    from confluent_kafka import KafkaException

    if not places:
        return {}
    try:
        answered = rdkafka.committed(rdkafka_partitions(dict.fromkeys(places, 0)), timeout_s)
    except KafkaException as error:
        raise from_rdkafka(error, about="committed offsets were not told") from error
    for each in answered:
        if each.error:
            about = f"the committed offset of {each.topic}-{each.partition} was not told"
            raise from_rdkafka(each.error, about=about)
    return {
        (each.topic, each.partition): each.offset if each.offset >= 0 else None for each in answered
    }
