"""Which partitions live on this node, and where: follows the image, opens, makes, removes logs.

Work that grows with the number of partitions runs in slices between turns, so that a topic of ten
thousand partitions stalls nobody.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.directory import Directory
from penstock.broker.partition import Partition
from penstock.broker.placements import (
    Place,
    Placed,
    Placements,
    Sizes,
    State,
    format_placements,
)
from penstock.broker.topic_settings import TopicSettings
from penstock.config.topic import TopicConfig
from penstock.controller.delta import Delta
from penstock.controller.image import BROKER, TOPIC, ConfigResource, Image, Topic
from penstock.controller.image import Partition as PartitionImage
from penstock.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.log.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    START_OFFSETS,
    format_offsets,
)
from penstock.log.directory import Kind, marked_name
from penstock.log.log import Log, LogExists
from penstock.model import METADATA_PARTITION, TopicPartition, id_to_text
from penstock.replication.leader import Leader
from penstock.world import Disk, DiskFailed, DiskFull, TooManyFiles

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.hosting")

SLICE_MS_MAX = 10.0
RETRY_MS = 5_000


class Refused(NamedTuple):
    """A partition that is here, or should be, and cannot be used; where it was, and what the
    checkpoints said of it."""

    reason: str
    directory_id: bytes
    partition: TopicPartition
    recovery_point: int = 0
    start_offset: int = 0
    sizes: Sizes | None = None  # of its segments when it was last closed


class Hosting:
    """The partitions of this node by topic name and by topic id."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._world = broker.world
        self.directories: list[Directory] = []
        self.placements: Placements
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self._settings: dict[str, TopicSettings] = {}
        self._to_make: deque[tuple[str, bytes, int]] = deque()
        self._slice_due = False
        self._refused: dict[tuple[bytes, int], Refused] = {}
        self._leaving: set[str] = set()  # directories on their way to another name
        self._when_settled: list[Callable[[], None]] = []
        self._loaded = False  # the directories have been looked through

    def use(self, directories: list[Directory], metadata_disk: Disk) -> None:
        self.directories = directories
        world = self._world
        self.placements = Placements(metadata_disk, world.clock, world.timers, self._placed)

    def all(self) -> Iterator[Partition]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def find(self, topic: str | bytes, index: int) -> Partition:
        """The partition, if this node leads it and its disk works; the right error if not."""
        if isinstance(topic, str):
            partition = self.by_name.get(topic, {}).get(index)
        else:
            partition = self.by_id.get(topic, {}).get(index)
        if partition is None:
            raise self._absent(topic, index)
        if partition.directory.failed:
            raise KafkaStorageError(f"{partition} is offline: {partition.directory.failed}")
        if not partition.leading:
            raise NotLeaderOrFollower(f"this node does not lead {partition}")
        return partition

    def _absent(self, topic: str | bytes, index: int) -> Exception:
        image = self._broker.image
        if isinstance(topic, bytes):
            found = image.topic(topic)
            if found is None:
                return UnknownTopicId(f"no topic has the id {id_to_text(topic)}")
            name = found.name
        else:
            found = image.topics.get(topic)
            name = topic
        if found is not None and (refused := self._refused.get((found.topic_id, index))):
            return KafkaStorageError(refused.reason)
        if found is not None and index in found.partitions:
            if found.partitions[index].leader != self._broker.node_id:
                return NotLeaderOrFollower(f"this node does not lead {found.name}-{index}")
        return UnknownTopicOrPartition(f"this server does not host {name}-{index}")

    # -- settings

    def settings(self, topic: str) -> TopicSettings:
        known = self._settings.get(topic)
        if known is None:
            overrides = self._broker.image.config(ConfigResource(TOPIC, topic))
            config = TopicConfig(overrides, self._broker.config)
            expiration_ms = self._broker.config.integer("producer.id.expiration.ms")
            known = self._settings[topic] = TopicSettings(config, expiration_ms)
        return known

    def reconfigure(self, topics: list[str]) -> None:
        """These topics' configuration has changed: it holds from the next request on."""
        for topic in topics:
            self._settings.pop(topic, None)
            for partition in self.by_name.get(topic, {}).values():
                partition.configure(self.settings(topic))

    # -- opening at the start

    def adopt(self, partition: Partition) -> None:
        self.by_name.setdefault(partition.topic, {})[partition.index] = partition
        self.by_id.setdefault(partition.topic_id, {})[partition.index] = partition
        partition.directory.partitions[partition] = None
        self.placements.changed()
        self._broker.hosted(partition)

    def make_partition(
        self, topic: Topic, index: int, directory: Directory, opened: Log
    ) -> Partition:
        """A hosted partition on an open log, led by this node."""
        state = topic.partitions[index]
        node_id = self._broker.node_id
        counted = opened.synced_offset if directory.waits_for_sync else opened.end_offset
        settings = self.settings(topic.name)
        # A broker that was stopped by hand leads nothing until the controller says so again.
        leading = state.leader == node_id
        isr = state.isr if leading else (node_id,)
        leader = Leader(node_id, state.leader_epoch, isr, 0)
        partition = Partition(
            topic.name,
            topic.topic_id,
            index,
            directory,
            opened,
            leader,
            settings,
            replicas=len(state.replicas),
        )
        leader.advance(counted)
        partition.leading = leading
        if counted < opened.end_offset:
            directory.wrote(partition)  # what recovery found is not durable yet
        return partition

    def missing(self) -> list[tuple[Topic, PartitionImage]]:
        """Partitions that the image puts here and no directory holds: never made, or lost."""
        return [
            (topic, state)
            for topic, state in self._broker.image.partitions()
            if self._broker.node_id in state.replicas
            and state.partition_id not in self.by_id.get(topic.topic_id, {})
            and (topic.topic_id, state.partition_id) not in self._refused
        ]

    def make_missing(self) -> None:
        """All that can be told from the directories is told: make what is still missing."""
        self._loaded = True
        for topic, state in self.missing():
            self._to_make.append((topic.name, topic.topic_id, state.partition_id))
        self._schedule_slice()

    def refuse(self, topic: Topic, index: int, refused: "Refused") -> None:
        """A log that cannot be opened without losing something: its partition stays offline."""
        self._refused[topic.topic_id, index] = refused
        self.placements.changed()

    def _refused_in(self, directory: Directory) -> Iterator["Refused"]:
        """Their checkpoints stay as they were: without a recovery point, damage in what was
        durable would look like a tail that was lost, and be cut away."""
        for each in self._refused.values():
            if each.directory_id == directory.directory_id:
                yield each

    def note_refused_now(self) -> None:
        """Before the marks of the clean stop go, which told that something is missing."""
        if self._refused:
            self.placements.store_now()

    def is_refused(self, topic_id: bytes, index: int) -> bool:
        return (topic_id, index) in self._refused

    # -- checkpoints

    def checkpoint(self, directory: Directory) -> None:
        """Recovery points, off the loop."""
        directory.store(RECOVERY_POINTS, self._recovery_points(directory))
        self.placements.changed()  # a partition may have become durable

    def checkpoint_start_offsets(self, directory: Directory) -> None:
        directory.store(START_OFFSETS, self._start_offsets(directory))

    def checkpoint_now(self, directory: Directory) -> None:
        """All of them, for a clean stop."""
        directory.disk.replace_now(RECOVERY_POINTS, self._recovery_points(directory))
        directory.disk.replace_now(START_OFFSETS, self._start_offsets(directory))
        directory.disk.replace_now(HIGH_WATERMARKS, self._high_watermarks(directory))
        self.placements.store_now()

    def checkpoint_high_watermarks(self, directory: Directory) -> None:
        directory.store(HIGH_WATERMARKS, self._high_watermarks(directory))

    def _recovery_points(self, directory: Directory) -> bytes:
        points = {}
        if directory.holds_metadata:
            points[METADATA_PARTITION] = self._broker.metadata.describe().high_watermark
        for each in directory.partitions:
            points[TopicPartition(each.topic, each.index)] = each.log.recovery_point
        for refused in self._refused_in(directory):
            points[refused.partition] = refused.recovery_point
        return format_offsets(points)

    def _start_offsets(self, directory: Directory) -> bytes:
        starts = {
            TopicPartition(each.topic, each.index): each.log.start_offset
            for each in directory.partitions
            if each.log.start_offset > 0
        }
        for refused in self._refused_in(directory):
            if refused.start_offset > 0:
                starts[refused.partition] = refused.start_offset
        return format_offsets(starts)

    def _high_watermarks(self, directory: Directory) -> bytes:
        return format_offsets(
            {
                TopicPartition(each.topic, each.index): each.leader.high_watermark
                for each in directory.partitions
            }
        )

    def _placed(self) -> bytes:
        """What the file of placements should say now."""
        paths = {each.directory_id: each.disk.root for each in self.directories}
        placed: list[tuple[Place, Placed]] = []
        for directory in self.directories:
            made = Placed(directory.directory_id, State.MADE)
            durable = Placed(directory.directory_id, State.DURABLE)
            for each in directory.partitions:
                where = durable if each.log.recovery_point > 0 else made
                placed.append(((each.topic_id, each.index), where))
        for place, refused in self._refused.items():
            placed.append((place, Placed(refused.directory_id, State.OFFLINE)))
            known = self.placements.paths.get(refused.directory_id)
            if known is not None:
                paths.setdefault(refused.directory_id, known)
        sizes = {place: each.sizes for place, each in self._refused.items() if each.sizes}
        return format_placements(placed, paths, sizes)

    def start_offsets_moved(self, directories: list[Directory]) -> None:
        """Records were deleted on request: that should survive a kill."""
        for directory in directories:
            if not directory.failed:
                self.checkpoint_start_offsets(directory)

    # -- following the image

    def follow(self, image: Image, delta: Delta) -> None:
        for name, topic_id in delta.deleted_topics:
            self._forget_topic(name, topic_id)
        for name, indexes in delta.changed_partitions:
            topic = image.topics.get(name)
            if topic is None:
                continue
            for index in indexes:
                self._changed(topic, topic.partitions[index])
        self._follow_configs(image, delta)
        self._schedule_slice()

    def _follow_configs(self, image: Image, delta: Delta) -> None:
        kinds = {resource.kind for resource in delta.configs}
        if BROKER in kinds:
            self.reconfigure(list(image.topics))
        else:
            self.reconfigure([each.name for each in delta.configs if each.kind == TOPIC])

    def _changed(self, topic: Topic, state: PartitionImage) -> None:
        node_id = self._broker.node_id
        hosted = self.by_id.get(topic.topic_id, {}).get(state.partition_id)
        if hosted is None:
            # Before the directories are loaded nobody knows what is missing from them.
            refused = self.is_refused(topic.topic_id, state.partition_id)
            if node_id in state.replicas and self._loaded and not refused:
                self._to_make.append((topic.name, topic.topic_id, state.partition_id))
        elif state.leader == node_id:
            hosted.lead(state.leader_epoch, state.isr, replicas=len(state.replicas))
            self._broker.hosted(hosted)
        else:
            hosted.stop_leading()
            self._broker.hosted(hosted)

    def _schedule_slice(self) -> None:
        if self._to_make and not self._slice_due:
            self._slice_due = True
            self._world.timers.soon(self._slice)
        elif not self._to_make and self._when_settled:
            settled, self._when_settled = self._when_settled, []
            for call in settled:
                call()
            self._broker.touch()

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call when every partition that the image puts here can be used."""
        self._when_settled.append(call)
        self._schedule_slice()

    def _slice(self) -> None:
        self._slice_due = False
        clock = self._world.clock
        until = clock.mono_ms() + SLICE_MS_MAX
        for _ in range(len(self._to_make)):
            name, topic_id, index = self._to_make.popleft()
            if f"{name}-{index}" in self._leaving:
                self._to_make.append((name, topic_id, index))  # its old directory is being renamed
            else:
                self._make(name, topic_id, index)
            if clock.mono_ms() >= until:
                break
        if not self._leaving or any(f"{n}-{i}" not in self._leaving for n, _, i in self._to_make):
            self._schedule_slice()

    def _make(self, name: str, topic_id: bytes, index: int) -> None:
        topic = self._broker.image.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            return  # deleted in the meantime
        if index in self.by_id.get(topic_id, {}):
            return  # it changed twice before its turn came; a second log would hide the first
        directory = self._emptiest()
        if directory is None:
            log.error("%s-%d cannot be made: no log directory works", name, index)
            return
        try:
            now_ms = self._world.clock.wall_ms()
            config = self.settings(name).log
            made = Log.create(
                directory.disk,
                f"{name}-{index}",
                topic_id,
                config,
                now_ms,
                files=directory.files,
                failed=directory.fail,
            )
        except TooManyFiles as failure:
            log.error("%s-%d is not there yet: %s; raise ulimit -n", name, index, failure)
            self._try_later(name, topic_id, index)
            return
        except DiskFull as failure:
            directory.filled_up(failure)
            self._try_later(name, topic_id, index)
            return
        except LogExists as error:
            log.error("%s-%d stays offline: %s", name, index, error)
            partition = TopicPartition(name, index)
            self.refuse(topic, index, Refused(str(error), directory.directory_id, partition))
            return
        except DiskFailed as failure:
            directory.take_offline(failure)
            self._make(name, topic_id, index)
            return
        self.adopt(self.make_partition(topic, index, directory, made))

    def _try_later(self, name: str, topic_id: bytes, index: int) -> None:
        at = self._world.clock.mono_ms() + RETRY_MS
        self._world.timers.at(at, lambda: self._try_again(name, topic_id, index))

    def _try_again(self, name: str, topic_id: bytes, index: int) -> None:
        self._to_make.append((name, topic_id, index))
        self._schedule_slice()

    def _emptiest(self) -> Directory | None:
        """The working directory with the fewest partitions; the first named one of equals."""
        working = [each for each in self.directories if not each.failed]
        return min(working, key=lambda each: len(each.partitions), default=None)

    # -- forgetting

    def _forget_topic(self, name: str, topic_id: bytes) -> None:
        self._settings.pop(name, None)
        partitions = self.by_id.pop(topic_id, {})
        for place in [each for each in self._refused if each[0] == topic_id]:
            del self._refused[place]
        self.placements.changed()
        named = self.by_name.get(name)
        if named is not None and (not named or named.keys() == partitions.keys()):
            del self.by_name[name]
        for partition in partitions.values():
            self._remove(partition)

    def _remove(self, partition: Partition) -> None:
        directory = partition.directory
        directory.partitions.pop(partition, None)
        partition.gone = True
        self._broker.unhosted(partition)
        partition.abandon(UnknownTopicOrPartition(f"{partition} was deleted"))
        if directory.failed:
            return
        if partition.log.start_offset > 0:
            # A topic made anew under this name would lose what lies below the old start.
            self.checkpoint_start_offsets(directory)
        old = str(partition)
        unique = self._world.entropy.uuid().hex()
        new = marked_name(TopicPartition(partition.topic, partition.index), Kind.DELETED, unique)
        self._leaving.add(old)

        def renamed(failure: DiskFailed | None) -> None:
            self._leaving.discard(old)
            if failure is not None:
                directory.fail(failure)
            else:
                self.remove_later(directory, new)
            self._schedule_slice()

        directory.disk.rename(old, new, renamed)

    def remove_later(self, directory: Directory, name: str, delay_ms: int | None = None) -> None:
        """Unlink what was renamed, once nobody can be reading it any more."""

        def removed(failure: DiskFailed | None) -> None:
            if failure is not None:
                log.error("cannot remove %s/%s: %s", directory.disk.root, name, failure)

        def remove() -> None:
            if not directory.failed:
                directory.disk.remove(name, removed)

        if delay_ms is None:
            delay_ms = self._broker.settings.file_delete_delay_ms
        self._world.timers.at(self._world.clock.mono_ms() + delay_ms, remove)
