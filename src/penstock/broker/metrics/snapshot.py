"""A snapshot of a broker, from which the rows of the table read.

Sums over partitions, groups and transactions are made once for all rows, in steps, so that ten
thousand partitions do not stall the loop. A row reads plain attributes of the broker itself.
"""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.broker.partitions.partition import PartitionTotals
from penstock.controller.image import NO_LEADER, PartitionImage, Topic
from penstock.coordinator.groups.offset_store import OFFSET, OffsetStore
from penstock.world import DiskFailed, ProcessStats

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions.partition import Partition
    from penstock.broker.storage.log_dir import LogDirectory

STEP = 100  # partitions, groups or transactions at a time
TOPICS_MAX = 5_000  # with series of their own; all of them are in the sums without a topic
LAGS_MAX = 5_000  # groups and topics with a series of their own
PARTITIONS_MAX = 10_000  # with series of their own, on request
EVERY_TOPIC = "*"
RECENT_MS = 60_000.0  # the measured time of the loop, if there were looks before
MARK_MS = 5_000.0


class LoopIdle:
    """The idle part of the loop's time between looks, from the processor time of its thread."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, float]] = deque()  # (steady clock, seconds of the thread)

    def measure(self, vitals: ProcessStats, now_ms: float) -> float | None:
        """Return the idle part, 0 to 1; None before two looks."""
        used = vitals.loop_cpu_seconds
        if used is None:
            return None
        marks = self._marks
        while len(marks) > 1 and marks[1][0] <= now_ms - RECENT_MS:
            marks.popleft()
        if not marks or now_ms - marks[-1][0] >= MARK_MS:
            marks.append((now_ms, used))
        at_ms, before = marks[0]
        if now_ms <= at_ms:
            return None
        return min(1.0, max(0.0, 1.0 - (used - before) * 1000 / (now_ms - at_ms)))


class TopicSnapshot:
    """Sums over the partitions of a topic on this node."""

    __slots__ = ("end_offsets", "partitions", "segments", "size", "start_offsets", "totals")

    def __init__(self) -> None:
        self.totals = PartitionTotals()
        self.size = 0
        self.segments = 0
        self.start_offsets = 0
        self.end_offsets = 0
        self.partitions: list[Partition] | None = None  # if they have series of their own

    def add(self, partition: "Partition") -> None:
        log = partition.log
        self.totals.add(partition)
        self.size += log.size
        self.segments += len(log.closed) + 1
        self.start_offsets += log.start_offset
        self.end_offsets += log.end_offset
        if self.partitions is not None:
            self.partitions.append(partition)


class LogDirSnapshot:
    """A log directory and its room; None if the disk does not answer."""

    __slots__ = ("directory", "free_bytes", "total_bytes")

    def __init__(self, directory: "LogDirectory") -> None:
        self.directory = directory
        self.free_bytes: int | None = None
        self.total_bytes: int | None = None
        if directory.failed is None:
            try:
                self.free_bytes = directory.disk.free_bytes()
                self.total_bytes = directory.disk.total_bytes()
            except DiskFailed:
                pass  # a write will find out; a metric decides nothing


class MetricsSnapshot:
    """All values of one page, complete after `steps`."""

    def __init__(
        self, broker: "Broker", idleness: LoopIdle, by_partition: Collection[str] = ()
    ) -> None:
        """Take process figures and directories now. Partitions of the topics in `by_partition` get
        series of their own."""
        self.broker = broker
        self.vitals: ProcessStats = broker.world.process_stats()
        self.wall_ms = broker.world.clock.wall_ms()
        self.mono_ms = broker.world.clock.mono_ms()
        self.idle = idleness.measure(self.vitals, self.mono_ms)
        self.directories = [LogDirSnapshot(each) for each in broker.replicas.directories]
        self.topics: dict[str, TopicSnapshot] = {}
        self.all_topics = PartitionTotals()
        self.topics_left_out = 0
        self.partitions_left_out = 0
        self.partitions = self.leaders = self.offline = 0
        self.under_replicated = self.under_min_insync = self.at_min_insync = 0
        self.lag_max = self.failed_followers = 0
        self.producer_ids = self.waiting_produces = 0
        self.cluster_partitions = self.without_leader = self.not_preferred = 0
        self.groups: dict[tuple[str, str], int] = {}  # (kind, state) -> how many
        self.offsets = 0
        self.lags: dict[tuple[str, str], int] = {}  # (group, topic) -> records not committed
        self.lags_left_out = 0
        self.transactions: dict[str, int] = {}  # by state
        self._by_partition = by_partition

    def steps(self) -> Iterator[None]:
        """Read everything, in short steps."""
        yield from self._look_at_partitions()
        yield from self._look_at_cluster()
        yield from self._look_at_groups()
        yield from self._look_at_transactions()

    def _look_at_partitions(self) -> Iterator[None]:
        replicas = self.broker.replicas
        self.all_topics = replace(replicas.retired)
        left = PARTITIONS_MAX
        for name in sorted(replicas.by_name):
            here = list(replicas.by_name.get(name, {}).values())
            topic: TopicSnapshot | None = None
            if len(self.topics) < TOPICS_MAX:
                topic = self.topics[name] = TopicSnapshot()
            else:
                self.topics_left_out += 1
            if topic is not None and self._is_asked_for(name):
                if len(here) <= left:
                    topic.partitions = []
                    left -= len(here)
                else:
                    self.partitions_left_out += len(here)
            for number, partition in enumerate(here):
                if number % STEP == 0:
                    yield
                if not partition.gone:
                    self._add(partition, topic)
        self.partitions += replicas.kept_offline_count
        self.offline += replicas.kept_offline_count

    def _is_asked_for(self, topic: str) -> bool:
        return topic in self._by_partition or EVERY_TOPIC in self._by_partition

    def _add(self, partition: "Partition", topic: TopicSnapshot | None) -> None:
        self.partitions += 1
        self.all_topics.add(partition)
        self.producer_ids += len(partition.log.producers.states)
        self.waiting_produces += len(partition.awaiting)
        if topic is not None:
            topic.add(partition)
        if partition.is_offline:
            self.offline += 1
        elif partition.leading:
            leader = partition.leader
            in_sync = len(leader.isr)
            self.leaders += 1
            self.under_replicated += in_sync < partition.replicas
            self.under_min_insync += in_sync < leader.min_insync
            self.at_min_insync += in_sync == leader.min_insync
        elif partition.following is not None:
            self.lag_max = max(self.lag_max, partition.following.lag)
            self.failed_followers += partition.following.has_failed

    def _look_at_cluster(self) -> Iterator[None]:
        for number, (topic, partition) in enumerate(self.broker.image.partitions()):
            if number % (10 * STEP) == 0:
                yield
            self.cluster_partitions += 1
            self.without_leader += not self._is_served(topic, partition)
            self.not_preferred += partition.leader != partition.replicas[0]

    def _is_served(self, topic: Topic, partition: PartitionImage) -> bool:
        """Return whether a partition has a leader that serves. For partitions of other nodes, the
        image tells."""
        replicas = self.broker.replicas
        if partition.leader != self.broker.node_id:
            return partition.leader != NO_LEADER
        if replicas.is_offline(topic.topic_id, partition.partition_id):
            return False
        return not replicas.is_to_be_created(topic, partition)

    def _look_at_groups(self) -> Iterator[None]:
        coordinators = self.broker.known_coordinators
        for runtime in list(coordinators.groups.values()) if coordinators else ():
            state = runtime.machine.state
            for number, group in enumerate(list(state.groups.values())):
                if number % STEP == 0:
                    yield
                place = (group.kind, group.state_name)
                self.groups[place] = self.groups.get(place, 0) + 1
            for number, group_id in enumerate(state.offsets.groups()):
                if number % STEP == 0:
                    yield
                self.offsets += state.offsets.count(group_id)
            yield from self._look_at_lags(state.offsets)

    def _look_at_lags(self, offsets: OffsetStore) -> Iterator[None]:
        """Sum up, per group and topic, what is committed by the leader and not by the group.

        Kafka's tools count the same: the high watermark less the committed offset, of partitions
        that have one. Partitions that another broker leads are not known here.
        """
        by_name = self.broker.replicas.by_name
        looked = 0
        for group_id in offsets.groups():
            for topic in offsets.topics_of(group_id):
                here = by_name.get(topic)
                if here is None:
                    continue
                if len(self.lags) >= LAGS_MAX:
                    self.lags_left_out += 1
                    continue
                lag = 0
                for number, stored in list(offsets.of_topic(group_id, topic).items()):
                    looked += 1
                    if looked % STEP == 0:
                        yield
                    partition = here.get(number)
                    if partition is not None and partition.leading and not partition.is_offline:
                        lag += partition.leader.high_watermark - stored[OFFSET]
                self.lags[group_id, topic] = lag
            looked += 1
            if looked % STEP == 0:
                yield

    def _look_at_transactions(self) -> Iterator[None]:
        coordinators = self.broker.known_coordinators
        for runtime in list(coordinators.transactions.values()) if coordinators else ():
            for number, each in enumerate(list(runtime.machine.transactions)):
                if number % STEP == 0:
                    yield
                title = each.status.title
                self.transactions[title] = self.transactions.get(title, 0) + 1
