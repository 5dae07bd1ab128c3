"""Offsets that only a broker can tell: of a moment, of the ends of partitions, of the group.

Every function blocks for at most its timeout, and is for the thread that makes such calls.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.client.consumer.committing import rdkafka_places
from penstock.client.consumer.ledger import Place
from penstock.client.consumer.plan import Position
from penstock.client.failures import from_rdkafka

if TYPE_CHECKING:
    from confluent_kafka import Consumer as RdkafkaConsumer

# What ListOffsets takes for a moment, beside milliseconds.
LATEST, EARLIEST = -1, -2


def milliseconds(moment: datetime) -> int:
    """Since 1970. A time without a zone could mean any: it is refused."""
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone: say datetime(..., tzinfo=UTC)")
    return int(moment.timestamp() * 1000)


def resolve(
    rdkafka: "RdkafkaConsumer", wanted: Mapping[Place, Position], timeout_s: float
) -> dict[Place, int]:
    """Positions as offsets."""
    found: dict[Place, int] = {}
    moments: dict[Place, int] = {}
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
    """ValueError if it is none."""
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
    rdkafka: "RdkafkaConsumer", moments: Mapping[Place, int], timeout_s: float
) -> dict[Place, int]:
    """The first offset at or after a moment; where there is none, the end."""
    found = _list_offsets(rdkafka, moments, timeout_s)
    beyond = {place: LATEST for place, offset in found.items() if offset < 0}
    if beyond:
        found |= _list_offsets(rdkafka, beyond, timeout_s)
    return found


def first_offsets_after(
    rdkafka: "RdkafkaConsumer", moments: Mapping[Place, int], timeout_s: float
) -> dict[Place, int | None]:
    """The first offset at or after a moment; None where no record is so young."""
    found = _list_offsets(rdkafka, moments, timeout_s)
    return {place: offset if offset >= 0 else None for place, offset in found.items()}


def _list_offsets(
    rdkafka: "RdkafkaConsumer", moments: Mapping[Place, int], timeout_s: float
) -> dict[Place, int]:
    from confluent_kafka import KafkaException

    try:
        answered = rdkafka.offsets_for_times(rdkafka_places(moments), timeout_s)
    except KafkaException as error:
        raise from_rdkafka(error, about="offsets were not told") from error
    for each in answered:
        if each.error:
            about = f"offsets of {each.topic}-{each.partition} were not told"
            raise from_rdkafka(each.error, about=about)
    return {(each.topic, each.partition): each.offset for each in answered}


def committed_offsets(
    rdkafka: "RdkafkaConsumer", places: Collection[Place], timeout_s: float
) -> dict[Place, int | None]:
    """Where the group is; None where it has committed nothing."""
    from confluent_kafka import KafkaException

    if not places:
        return {}
    try:
        answered = rdkafka.committed(rdkafka_places(dict.fromkeys(places, 0)), timeout_s)
    except KafkaException as error:
        raise from_rdkafka(error, about="committed offsets were not told") from error
    for each in answered:
        if each.error:
            about = f"the committed offset of {each.topic}-{each.partition} was not told"
            raise from_rdkafka(each.error, about=about)
    return {
        (each.topic, each.partition): each.offset if each.offset >= 0 else None for each in answered
    }
