"""One look at a broker: what the rows of the table read.

Sums over partitions, groups and transactions are made here once for all rows, in steps, so that
ten thousand partitions stall nobody. What is a plain attribute somewhere is read by its row.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from penstock.broker.metrics.counts import Totals
from penstock.broker.metrics.idleness import Idleness
from penstock.controller.image import NO_LEADER, Topic
from penstock.controller.image import Partition as PartitionImage
from penstock.coordinator.groups.offset_store import OFFSET, OffsetStore
from penstock.world import DiskFailed, Vitals

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.directory import Directory
    from penstock.broker.partition import Partition

STEP = 100  # partitions, groups or transactions at a time
TOPICS_MAX = 5_000  # with series of their own; all of them are in the sums without a topic
LAGS_MAX = 5_000  # groups and topics with a series of their own
PARTITIONS_MAX = 10_000  # with series of their own, when somebody asks for them
EVERY_TOPIC = "*"


class TopicSeen:
    """The partitions of a topic that are here, together."""

    __slots__ = ("end_offsets", "partitions", "segments", "size", "start_offsets", "totals")

    def __init__(self) -> None:
        self.totals = Totals()
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


class DirectorySeen:
    """A log directory; None where it cannot tell."""

    __slots__ = ("directory", "free_bytes", "total_bytes")

    def __init__(self, directory: "Directory") -> None:
        self.directory = directory
        self.free_bytes: int | None = None
        self.total_bytes: int | None = None
        if directory.failed is None:
            try:
                self.free_bytes = directory.disk.free_bytes()
                self.total_bytes = directory.disk.total_bytes()
            except DiskFailed:
                pass  # whoever writes to it will find out; looking at it decides nothing


class Seen:
    """Whole when `steps` has ended."""

    def __init__(
        self, broker: "Broker", idleness: Idleness, by_partition: Collection[str] = ()
    ) -> None:
        """`by_partition` names the topics whose partitions are told one by one."""
        self.broker = broker
        self.vitals: Vitals = broker.world.vitals()
        self.wall_ms = broker.world.clock.wall_ms()
        self.mono_ms = broker.world.clock.mono_ms()
        self.idle = idleness.measure(self.vitals, self.mono_ms)
        self.directories = [DirectorySeen(each) for each in broker.hosting.directories]
        self.topics: dict[str, TopicSeen] = {}
        self.all_topics = Totals()
        self.topics_left_out = 0
        self.partitions_left_out = 0
        self.partitions = self.leaders = self.offline = 0
        self.under_replicated = self.under_min_insync = self.at_min_insync = 0
        self.producer_ids = self.waiting_produces = 0
        self.cluster_partitions = self.without_leader = self.not_preferred = 0
        self.groups: dict[tuple[str, str], int] = {}  # (kind, state) -> how many
        self.offsets = 0
        self.lags: dict[tuple[str, str], int] = {}  # (group, topic) -> records not committed
        self.lags_left_out = 0
        self.transactions: dict[str, int] = {}  # by state
        self._by_partition = by_partition

    def steps(self) -> Iterator[None]:
        """Look at everything; comes back often."""
        yield from self._look_at_partitions()
        yield from self._look_at_cluster()
        yield from self._look_at_groups()
        yield from self._look_at_transactions()

    def _look_at_partitions(self) -> Iterator[None]:
        hosting = self.broker.hosting
        retired = self.broker.counts.retired
        for name in Totals.__slots__:
            setattr(self.all_topics, name, getattr(retired, name))
        left = PARTITIONS_MAX
        for name in sorted(hosting.by_name):
            here = list(hosting.by_name.get(name, {}).values())
            topic: TopicSeen | None = None
            if len(self.topics) < TOPICS_MAX:
                topic = self.topics[name] = TopicSeen()
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
        self.partitions += hosting.refused_count
        self.offline += hosting.refused_count

    def _is_asked_for(self, topic: str) -> bool:
        return topic in self._by_partition or EVERY_TOPIC in self._by_partition

    def _add(self, partition: "Partition", topic: TopicSeen | None) -> None:
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

    def _look_at_cluster(self) -> Iterator[None]:
        for number, (topic, partition) in enumerate(self.broker.image.partitions()):
            if number % (10 * STEP) == 0:
                yield
            self.cluster_partitions += 1
            self.without_leader += not self._is_served(topic, partition)
            self.not_preferred += partition.leader != partition.replicas[0]

    def _is_served(self, topic: Topic, partition: PartitionImage) -> bool:
        """Whether it has a leader that can serve. Of its own partitions each node knows that; of
        others it knows what the image says."""
        hosting = self.broker.hosting
        if partition.leader != self.broker.node_id:
            return partition.leader != NO_LEADER
        if hosting.is_offline(topic.topic_id, partition.partition_id):
            return False
        return not hosting.is_to_be_made(topic, partition)

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
        by_name = self.broker.hosting.by_name
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
