"""The lookups of a plan: existing partitions, and their offsets."""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from penstock.client.admin.blocking import Admin
from penstock.client.raw.outcomes import PartitionMissing, TopicMissing
from penstock.client.transport.connection import CannotReach
from penstock.client.values import FoundOffset, TopicDescription
from penstock.errors import KafkaError, UnknownTopicOrPartition
from penstock.model import TopicPartition
from penstock.spark.options.bounds import (
    EARLIEST,
    LATEST,
    AssignedTopicPartitions,
    Bound,
    Edge,
    PartitionOffsets,
    Subscription,
    Timestamp,
    Timestamps,
    TopicPattern,
    Topics,
)
from penstock.spark.options.option_bag import BadOption
from penstock.spark.options.source import SourceOptions
from penstock.spark.source.positions import Position

R = TypeVar("R")

NOT_FOUND = -1

logger = logging.getLogger("penstock.spark")


class Lookup:
    """Lookups in one cluster, with retries."""

    def __init__(self, admin: Admin, options: SourceOptions) -> None:
        self._admin = admin
        self._options = options

    def close(self) -> None:
        self._admin.close()

    # -- partitions

    def topics(self) -> dict[str, TopicDescription]:
        """Return the topics of the subscription now. Raise for a missing topic that was named."""
        return self._again(lambda: self._topics(self._options.subscription))

    def _topics(self, subscription: Subscription) -> dict[str, TopicDescription]:
        match subscription:
            case TopicPattern(text):
                fits = re.compile(text).fullmatch
                listed = self._admin.list_topics()
                return {each.name: each for each in listed if fits(each.name)}
            case Topics(names):
                wanted: Sequence[str] = names
            case AssignedTopicPartitions(partitions):
                wanted = list(dict.fromkeys(each.topic for each in partitions))
        found: dict[str, TopicDescription] = {}
        for name, topic in self._admin.describe_topics(wanted).items():
            if isinstance(topic, UnknownTopicOrPartition):
                continue
            if isinstance(topic, KafkaError):
                raise topic
            found[name] = topic
        return found

    def partitions(self, topics: Mapping[str, TopicDescription]) -> list[TopicPartition]:
        existing = [
            TopicPartition(topic.name, each.partition)
            for topic in topics.values()
            for each in topic.partitions
        ]
        match self._options.subscription:
            case AssignedTopicPartitions(wanted):
                return [each for each in wanted if each in set(existing)]
            case _:
                return existing

    def require(self, topics: Mapping[str, TopicDescription]) -> list[TopicPartition]:
        """Return the partitions. Raise if a named one is missing."""
        found = self.partitions(topics)
        match self._options.subscription:
            case Topics(names):
                asked = [TopicPartition(name, 0) for name in names if name not in topics]
            case AssignedTopicPartitions(wanted):
                asked = sorted(set(wanted) - set(found))
            case TopicPattern():
                asked = []
        for each in asked:
            if each.topic in topics:
                raise PartitionMissing(each, len(topics[each.topic].partitions))
            raise TopicMissing(each)
        return found

    def asks_for(self, partition: TopicPartition) -> bool:
        """Return whether the subscription includes the partition, existing or not."""
        match self._options.subscription:
            case Topics(names):
                return partition.topic in names
            case AssignedTopicPartitions(wanted):
                return partition in wanted
            case TopicPattern(text):
                return re.fullmatch(text, partition.topic) is not None

    # -- offsets

    def earliest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermark; with read_committed the last stable offset."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def log_end(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the high watermark, for any isolation level: records beyond it are invisible."""
        return self._offsets(dict.fromkeys(partitions, LATEST), committed_only=False)

    def first_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the first record at or after a time; NOT_FOUND if all are older."""
        return self._offsets(times)

    def resolve(
        self,
        bound: Bound,
        partitions: Sequence[TopicPartition],
        wanted: Sequence[TopicPartition],
        starting: bool,
    ) -> dict[TopicPartition, int]:
        """Return the offsets of a bound in the wanted partitions. Raise if one is missing."""
        match bound:
            case Edge(place):
                return self._offsets(dict.fromkeys(wanted, place))
            case PartitionOffsets(by_partition):
                _require_same(by_partition, partitions, "Offsets", starting)
                mine = {each: by_partition[each] for each in wanted}
                return {**mine, **self._offsets({each: at for each, at in mine.items() if at < 0})}
            case Timestamp(timestamp_ms):
                return self._at_times(dict.fromkeys(wanted, timestamp_ms), starting)
            case Timestamps(by_partition):
                _require_same(by_partition, partitions, "OffsetsByTimestamp", starting)
                return self._at_times({each: by_partition[each] for each in wanted}, starting)

    def _at_times(
        self, times: Mapping[TopicPartition, int], starting: bool
    ) -> dict[TopicPartition, int]:
        found = self.first_at(times)
        late = [each for each, offset in found.items() if offset == NOT_FOUND]
        if late and starting and not self._options.late_start_is_latest:
            names = ", ".join(map(str, sorted(late)))
            raise BadOption(
                f"nothing in {names} is as new as the starting timestamp; "
                "startingOffsetsByTimestampStrategy=latest begins at the end there"
            )
        return {**found, **self.latest(late)}

    def _offsets(
        self, places: Mapping[TopicPartition, int], committed_only: bool | None = None
    ) -> dict[TopicPartition, int]:
        if not places:
            return {}
        committed = self._options.committed_only if committed_only is None else committed_only

        def ask() -> dict[TopicPartition, int]:
            found = self._admin.offsets(places, committed_only=committed)
            return {each: _offset_of(each, answer) for each, answer in found.items()}

        return self._again(ask)

    def position(
        self, offsets: Mapping[TopicPartition, int], topics: Mapping[str, TopicDescription]
    ) -> Position:
        names = {each.topic for each in offsets}
        ids = {name: topic.topic_id for name, topic in topics.items() if name in names}
        return Position(offsets, ids)

    def _again(self, ask: Callable[[], R]) -> R:
        """Retry as often as fetchOffset.numRetries says."""
        for _ in range(self._options.lookup_retries):
            try:
                return ask()
            except (KafkaError, CannotReach) as problem:
                if isinstance(problem, KafkaError) and not problem.retriable:
                    raise
                logger.warning("offsets could not be looked up, asking again: %s", problem)
                time.sleep(self._options.lookup_pause_ms / 1000)
        return ask()


def _offset_of(partition: TopicPartition, answer: FoundOffset | KafkaError) -> int:
    if isinstance(answer, KafkaError):
        raise type(answer)(f"{partition}: {answer.message}")
    return answer.offset


def _require_same(
    given: Mapping[TopicPartition, int],
    partitions: Sequence[TopicPartition],
    name: str,
    starting: bool,
) -> None:
    """Raise unless offsets by partition name every partition; the others would have no start."""
    missing = sorted(set(partitions) - set(given))
    unknown = sorted(set(given) - set(partitions))
    for wrong, sentence in ((missing, "does not name"), (unknown, "names what is not read:")):
        if wrong:
            listed = ", ".join(map(str, wrong))
            side = "starting" if starting else "ending"
            raise BadOption(f"{side}{name} {sentence} {listed}")
