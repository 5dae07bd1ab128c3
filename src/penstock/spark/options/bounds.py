"""The topics, start and end of a read, in the words of Spark's Kafka source."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from penstock.model import TopicPartition
from penstock.spark.options.option_bag import BadOption, OptionBag

EARLIEST, LATEST = -2, -1
SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics by name."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """Topics whose whole name matches a regular expression, later ones included."""

    text: str


@dataclass(frozen=True, slots=True)
class AssignedTopicPartitions:
    """These partitions and no others."""

    partitions: tuple[TopicPartition, ...]


Subscription = Topics | TopicPattern | AssignedTopicPartitions


@dataclass(frozen=True, slots=True)
class Edge:
    """The same position in every partition: EARLIEST or LATEST."""

    place: int


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """An offset per partition; EARLIEST and LATEST are offsets too."""

    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamp:
    """The first record at or after a time, the same in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Timestamps:
    """The first record at or after a time, per partition."""

    by_partition: Mapping[TopicPartition, int]


Bound = Edge | PartitionOffsets | Timestamp | Timestamps


def read_subscription(bag: OptionBag) -> Subscription:
    given = [name for name in SUBSCRIPTIONS if name in bag]
    if len(given) != 1:
        said = " and ".join(given) or "none of them"
        raise BadOption(f"say one of {', '.join(SUBSCRIPTIONS)}; {said} was given")
    text = (bag.text(given[0]) or "").strip()
    if not text:
        raise BadOption(f"{given[0]} is empty")
    match given[0]:
        case "subscribe":
            names = tuple(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
            if not names:
                raise BadOption(f"subscribe is {text!r}; it takes topics with commas between")
            return Topics(names)
        case "subscribePattern":
            try:
                re.compile(text)
            except re.error as problem:
                raise BadOption(f"subscribePattern {text!r} is not understood: {problem}") from None
            return TopicPattern(text)
        case _:
            return AssignedTopicPartitions(_read_assigned(text))


def _read_assigned(text: str) -> tuple[TopicPartition, ...]:
    wrong = BadOption(f'assign is {text!r}; it takes {{"topic": [0, 1], ...}}')
    value = _read_json(text, wrong)
    found: list[TopicPartition] = []
    for topic, partitions in value.items():
        if not isinstance(partitions, list) or not all(map(_is_partition, partitions)):
            raise wrong
        found.extend(TopicPartition(topic, each) for each in partitions)
    if not found:
        raise wrong
    return tuple(dict.fromkeys(found))


def read_start(bag: OptionBag, streaming: bool) -> Bound:
    bound = _read_bound(bag, "starting", LATEST if streaming else EARLIEST)
    if not streaming and has_place(bound, LATEST):
        raise BadOption("startingOffsets cannot be latest in a batch read: nothing would be read")
    return bound


def read_end(bag: OptionBag) -> Bound:
    bound = _read_bound(bag, "ending", LATEST)
    if has_place(bound, EARLIEST):
        raise BadOption("endingOffsets cannot be earliest: nothing would be read")
    return bound


def has_place(bound: Bound, place: int) -> bool:
    """Return whether any partition is bounded by EARLIEST or LATEST."""
    match bound:
        case Edge():
            return bound.place == place
        case PartitionOffsets():
            return place in bound.by_partition.values()
        case _:
            return False


def _read_bound(bag: OptionBag, side: str, default: int) -> Bound:
    """Read a bound: one timestamp comes before timestamps by partition, and these before
    offsets."""
    everywhere = bag.whole(f"{side}Timestamp")
    if everywhere is not None:
        return Timestamp(everywhere)
    by_time = bag.text(f"{side}OffsetsByTimestamp")
    if by_time is not None:
        return Timestamps(_read_places(by_time, f"{side}OffsetsByTimestamp", lowest=0))
    offsets = bag.text(f"{side}Offsets")
    match offsets.strip().lower() if offsets is not None else None:
        case None:
            return Edge(default)
        case "earliest":
            return Edge(EARLIEST)
        case "latest":
            return Edge(LATEST)
        case _:
            assert offsets is not None
            return PartitionOffsets(_read_places(offsets, f"{side}Offsets", lowest=EARLIEST))


def _read_places(text: str, name: str, lowest: int) -> dict[TopicPartition, int]:
    """Read `{"topic": {"0": 23, "1": -1}}`, as Spark's Kafka source writes it."""
    words = "earliest, latest or " if name.endswith("Offsets") else ""
    wrong = BadOption(f'{name} is {text!r}; it takes {words}{{"topic": {{"0": 23, ...}}, ...}}')
    found: dict[TopicPartition, int] = {}
    for topic, places in _read_json(text, wrong).items():
        if not isinstance(places, dict):
            raise wrong
        for partition, place in places.items():
            if not partition.isdecimal() or not _is_whole(place) or place < lowest:
                raise wrong
            found[TopicPartition(topic, int(partition))] = place
    if not found:
        raise wrong
    return found


def _read_json(text: str, wrong: BadOption) -> dict[str, object]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        raise wrong from None
    if not isinstance(value, dict):
        raise wrong
    return value


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_partition(value: object) -> bool:
    return _is_whole(value) and value >= 0
