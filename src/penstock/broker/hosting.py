"""Which partitions live on this node, and where: follows the image, opens, makes, removes logs.

making.py makes the files of new partitions off the loop, leaving.py takes those of deleted topics
away.
"""

import logging
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.checkpointing import Checkpointing
from penstock.broker.deletions import Deletions
from penstock.broker.directory import Directory
from penstock.broker.leaving import Leaving
from penstock.broker.making import Making, Wanted
from penstock.broker.originals import Originals
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
from penstock.log.log import Log, LogExists
from penstock.model import ZERO_ID, TopicPartition, id_to_text
from penstock.observe.times import Times
from penstock.replication.leader import Leader
from penstock.world import Disk, DiskFailed, File

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

log = logging.getLogger("penstock.hosting")


class Refused(NamedTuple):
    """A partition that is here, or should be, and cannot be used; where it was, and what the
    checkpoints said of it."""

    reason: str
    directory_id: bytes
    partition: TopicPartition
    recovery_point: int = 0
    start_offset: int = 0
    sizes: Sizes | None = None  # of its segments when it was last closed
    state: State = State.OFFLINE
    used_in: bytes | None = None  # the directory it was last used in, if that is another one


class Hosting:
    """The partitions of this node by topic name and by topic id."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._world = broker.world
        self.directories: list[Directory] = []
        self.deletions = Deletions(broker.world)
        self.sync_times = Times()  # of all directories
        self.checkpoints = Checkpointing(broker)
        self.placements: Placements
        self.originals: Originals
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self._settings: dict[str, TopicSettings] = {}
        self._making = Making(
            broker.world,
            announce=self._announce,
            choose=self._emptiest,
            forget_gone=self.checkpoints.forget_gone,
            still_wanted=self._still_wanted,
            made=self._made,
            refused=self._made_before,
            unwanted=self._unwanted,
            dropped=lambda wanted: self.placements.arrived((wanted.topic_id, wanted.index)),
            settled=self._settled,
        )
        self._refused: dict[tuple[bytes, int], Refused] = {}
        self._refused_too: dict[Place, dict[bytes, Refused]] = {}  # the same in other directories
        self.leaving = Leaving(broker, self._making)
        self._placed_at = -1  # the metadata offset at which the last partition came here
        self._when_settled: list[Callable[[], None]] = []
        self._loaded = False  # the directories have been looked through

    def use(self, directories: list[Directory], metadata_disk: Disk) -> None:
        self.directories = directories
        world = self._world
        for directory in directories:
            directory.now_ms = world.clock.mono_ms
            directory.sync_times = self.sync_times
            self._watch(directory)
        self.placements = Placements(metadata_disk, world.clock, world.timers, self._placed)
        self.originals = Originals(
            world,
            self.placements,
            self.remove_later,
            lambda: self._broker.stopping,
            self._making.stall,
        )

    def _watch(self, directory: Directory) -> None:
        integrity = self._broker.integrity
        directory.on_lost = lambda failure: integrity.look_through(directory, failure)
        directory.check = lambda partitions, done: integrity.check(
            directory, partitions, done, closed=True
        )

    def identity(self, directory: Directory) -> bytes:
        """Its id, or the one that it had; the zero id if nobody knows it."""
        if directory.is_identified:
            return directory.directory_id
        return next(iter(self.placements.ids_at(directory.disk.root)), ZERO_ID)

    def directory_at(self, path: str) -> Directory | None:
        return next((each for each in self.directories if each.disk.root == path), None)

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
        if partition.log.lost is not None:
            raise KafkaStorageError(f"{partition} is offline: {partition.log.lost}")
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
                self._broker.cleaning.configured(partition)

    # -- opening at the start

    def adopt(self, partition: Partition) -> None:
        self.by_name.setdefault(partition.topic, {})[partition.index] = partition
        self.by_id.setdefault(partition.topic_id, {})[partition.index] = partition
        partition.directory.partitions[partition] = None
        partition.directory.moved.add(partition)
        self._placed_at = self._broker.image.offset
        self.placements.arrived((partition.topic_id, partition.index))
        self._broker.hosted(partition)

    def make_partition(
        self,
        topic: Topic,
        index: int,
        directory: Directory,
        opened: Log,
        *,
        high_watermark: int = 0,
    ) -> Partition:
        """Return a hosted partition on an open log. `high_watermark` is that of the checkpoint; the
        end of the log counts when this node leads."""
        state = topic.partitions[index]
        node_id = self._broker.node_id
        counted = opened.synced_offset if directory.waits_for_sync else opened.end_offset
        settings = self.settings(topic.name)
        # A broker that was stopped by hand leads nothing until the controller says so again.
        leading = state.leader == node_id
        isr = state.isr if leading else (node_id,)
        known = max(opened.start_offset, min(high_watermark, opened.end_offset))
        leader = Leader(node_id, state.leader_epoch, isr, known)
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
        partition.leading = leading
        if leading:
            leader.advance(counted)
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
        self.placements.begin()
        for topic, state in self.missing():
            self._making.want(Wanted(topic.name, topic.topic_id, state.partition_id))
        self._making.go_on()

    def refuse(self, topic: Topic, index: int, refused: "Refused") -> None:
        """A log that cannot be opened without losing something: its partition stays offline."""
        self._refused[topic.topic_id, index] = refused
        if refused.state is State.SOUGHT:
            self.placements.changed()  # what was announced of it counts until it is found
        else:
            self.placements.arrived((topic.topic_id, index))

    def refuse_too(self, topic: Topic, index: int, refused: "Refused") -> None:
        """One that is refused has files in this directory as well, and nobody knows which of them
        will be used: the checkpoints of each stay, and none is held to the sizes of another."""
        place = (topic.topic_id, index)
        known = self._refused[place]
        if known.directory_id != refused.directory_id:
            self._refused[place] = known._replace(sizes=None)
            self._refused_too.setdefault(place, {})[refused.directory_id] = refused

    def withdraw(self, partition: Partition, reason: str) -> None:
        """It was in use, and is offline until a start, as nothing may be added to its files."""
        place = (partition.topic_id, partition.index)
        directory, opened = partition.directory, partition.log
        self.by_id.get(partition.topic_id, {}).pop(partition.index, None)
        named = self.by_name.get(partition.topic, {})
        if named.get(partition.index) is partition:
            del named[partition.index]
        directory.partitions.pop(partition, None)
        directory.moved.add(partition)
        partition.gone = True
        opened.disown()
        self._refused[place] = Refused(
            reason,
            directory.directory_id,
            TopicPartition(partition.topic, partition.index),
            opened.recovery_point,
            opened.start_offset,
        )
        self._broker.counts.retired.add(partition)
        self._broker.unhosted(partition)
        self._broker.forget_memos()
        partition.abandon(KafkaStorageError(reason))
        self.placements.changed()

    def refused_in(self, directory: Directory) -> Iterator["Refused"]:
        """Their checkpoints stay as they were: without a recovery point, damage in what was
        durable would look like a tail that was lost, and be cut away."""
        for place, each in self._refused.items():
            if each.directory_id == directory.directory_id:
                yield each
            elif (too := self._refused_too.get(place, {}).get(directory.directory_id)) is not None:
                yield too

    def note_refused_now(self) -> None:
        """Before the marks of the clean stop go, which told that something is missing."""
        if self._refused:
            self.placements.store_now()

    @property
    def sought(self) -> Container[Place]:
        return {each for each, refused in self._refused.items() if refused.state is State.SOUGHT}

    @property
    def refused_count(self) -> int:
        return len(self._refused)

    def is_to_be_made(self, topic: Topic, state: PartitionImage) -> bool:
        """This node leads it and does not have it yet: who was told otherwise would find half of
        what it pipelines refused."""
        index = state.partition_id
        if state.leader != self._broker.node_id or self.is_refused(topic.topic_id, index):
            return False
        return index not in self.by_id.get(topic.topic_id, {})

    def is_refused(self, topic_id: bytes, index: int) -> bool:
        return (topic_id, index) in self._refused

    def is_offline(self, topic_id: bytes, index: int) -> bool:
        """It belongs here and cannot be used."""
        hosted = self.by_id.get(topic_id, {}).get(index)
        return self.is_refused(topic_id, index) if hosted is None else hosted.is_offline

    # -- where they are

    def _placed(self) -> bytes:
        """What the file of placements should say now."""
        paths: dict[bytes, str] = {}
        for directory in self.directories:
            before = self.placements.ids_at(directory.disk.root)
            ids = [directory.directory_id] if directory.is_identified else before
            paths.update(dict.fromkeys(ids, directory.disk.root))
        placed: list[tuple[Place, Placed]] = []
        lost_sizes: dict[Place, Sizes] = {}
        for directory in self.directories:
            made = Placed(directory.directory_id, State.MADE)
            durable = Placed(directory.directory_id, State.DURABLE)
            offline = Placed(directory.directory_id, State.OFFLINE)
            for each in directory.partitions:
                where = durable if each.log.synced_offset > 0 else made
                if each.log.lost is not None:
                    where = offline
                    lost_sizes[each.topic_id, each.index] = each.log.sizes()
                placed.append(((each.topic_id, each.index), where))
        for place, refused in self._refused.items():
            where_it_was = refused.used_in or refused.directory_id
            placed.append((place, Placed(where_it_was, refused.state)))
            known = self.placements.paths.get(where_it_was)
            if known is not None:
                paths.setdefault(where_it_was, known)
        names = dict(self.originals.names)
        for (topic_id, _), refused in self._refused.items():
            names[topic_id] = refused.partition.topic
        for topic_id, partitions in self.by_id.items():
            for each in islice(partitions.values(), 1):
                names[topic_id] = each.topic
        sizes = {place: each.sizes for place, each in self._refused.items() if each.sizes}
        sizes |= lost_sizes
        left = dict(self.originals.left)
        for place, others in self._refused_too.items():
            left[place] = list(dict.fromkeys([*left.get(place, ()), *others]))
        return format_placements(placed, paths, sizes, names, self._placed_at, left)

    def start_offsets_moved(
        self,
        directories: list[Directory],
        done: Callable[[Directory, DiskFailed | None], None] | None = None,
    ) -> None:
        """Make durable that records were deleted on request. `done` hears of each directory."""
        for directory in directories:
            if not directory.failed:
                stored = None if done is None else partial(done, directory)
                self.checkpoints.start_offsets(directory, stored)

    def moved(self, partition: Partition, source: Directory, target: Directory) -> None:
        """Its log lives in another directory now."""
        source.partitions.pop(partition, None)
        source.forget(partition)
        source.moved.add(partition)
        partition.directory = target
        if partition.gone:
            return
        target.partitions[partition] = None
        partition.synced()
        self._broker.cleaning.offsets.move(partition, source)
        source.departures.add(TopicPartition(partition.topic, partition.index))
        for directory in (target, source):
            if not directory.failed:
                self.checkpoints.recovery_points(directory)
                self.checkpoints.start_offsets(directory)

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
        self._making.go_on()

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
                self._making.want(Wanted(topic.name, topic.topic_id, state.partition_id))
        elif state.leader == node_id:
            hosted.lead(state.leader_epoch, state.isr, replicas=len(state.replicas))
            self._broker.hosted(hosted)
        else:
            hosted.stop_leading()
            self._broker.hosted(hosted)

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call when every partition that the image puts here can be used."""
        self._when_settled.append(call)
        self._making.go_on()

    def stop_making(self) -> None:
        """The node stops: what is not begun is made by the next start."""
        self._making.stop()

    @property
    def making(self) -> bool:
        """Whether the files of a partition are being made."""
        return self._making.working

    def _settled(self) -> None:
        if self._when_settled:
            settled, self._when_settled = self._when_settled, []
            for call in settled:
                call()
            self._broker.touch()

    # -- making

    def _announce(self, wanted: Sequence[Wanted], done: Callable[[], None]) -> None:
        coming = {(each.topic_id, each.index): each.topic for each in wanted}
        paths = {each.directory_id: each.disk.root for each in self.directories if not each.failed}
        self.placements.announce(coming, paths, self._broker.image.offset, done)

    def _still_wanted(self, wanted: Wanted) -> bool:
        """Not if it was deleted meanwhile, nor if it is here: it may have changed twice before its
        turn came, and a second log would hide the first."""
        topic = self._broker.image.topics.get(wanted.topic)
        if topic is None or topic.topic_id != wanted.topic_id:
            return False
        return wanted.index not in self.by_id.get(wanted.topic_id, {})

    def _made(self, wanted: Wanted, directory: Directory, file: File) -> None:
        topic = self._broker.image.topics[wanted.topic]
        made = Log.create(
            directory.disk,
            wanted.name,
            wanted.topic_id,
            self.settings(wanted.topic).log,
            self._world.clock.wall_ms(),
            file=file,
            files=directory.files,
            failed=directory.fail,
        )
        self.adopt(self.make_partition(topic, wanted.index, directory, made))

    def _unwanted(self, wanted: Wanted, directory: Directory) -> None:
        self.leaving.take(wanted, directory)

    def _made_before(self, wanted: Wanted, directory: Directory, error: LogExists) -> None:
        topic = self._broker.image.topics.get(wanted.topic)
        if topic is not None and topic.topic_id == wanted.topic_id:
            partition = TopicPartition(wanted.topic, wanted.index)
            refused = Refused(
                f"{partition} stays offline: {error}. Move that out of log.dirs and start again",
                directory.directory_id,
                partition,
                state=State.SOUGHT,
            )
            self.refuse(topic, wanted.index, refused)
        else:
            self.placements.arrived((wanted.topic_id, wanted.index))

    def _emptiest(self) -> Directory | None:
        """The working directory with the fewest partitions; the first named one of equals. One that
        is nearly full is taken only where all are."""
        working = [each for each in self.directories if not each.failed]
        working = [each for each in working if not each.refuses_writes] or working
        return min(working, key=lambda each: len(each.partitions) + each.making, default=None)

    # -- forgetting

    def still_left(self, place: Place, topic: str, directory_id: bytes) -> None:
        """Something of a deleted partition, or what a move has left of one, is in a directory from
        which it cannot be taken yet."""
        self.originals.note(place, topic, directory_id)
        self._placed_at = self._broker.image.offset

    def _forget_topic(self, name: str, topic_id: bytes) -> None:
        self._settings.pop(name, None)
        partitions = self.by_id.pop(topic_id, {})
        refused = [each for each in self._refused if each[0] == topic_id]
        if refused:
            self._remove_refused(refused)
        self.placements.changed()
        named = self.by_name.get(name)
        if named is not None and (not named or named.keys() == partitions.keys()):
            del self.by_name[name]
        had_starts: dict[Directory, None] = {}
        for partition in partitions.values():
            if partition.log.start_offset > 0:
                had_starts[partition.directory] = None
            self._remove(partition)
        for directory in had_starts:
            if not directory.failed:
                self.checkpoints.start_offsets(directory)

    def _remove_refused(self, places: Sequence[Place]) -> None:
        refused = {place: self._refused.pop(place) for place in places}
        for place, each in refused.items():
            found_in = {each.directory_id, *self._refused_too.pop(place, {})}
            for directory in self.directories:
                if directory.directory_id in found_in and not directory.failed:
                    directory.departures.add(each.partition)
        self.leaving.take_refused(refused)

    def _remove(self, partition: Partition) -> None:
        directory = partition.directory
        directory.partitions.pop(partition, None)
        directory.moved.add(partition)
        partition.gone = True
        partition.log.disown()
        arrives = self._broker.moves.forget(partition)
        self._broker.counts.retired.add(partition)
        self._broker.unhosted(partition)
        partition.abandon(UnknownTopicOrPartition(f"{partition} was deleted"))
        place = (partition.topic_id, partition.index)
        self.originals.note(place, partition.topic, directory.directory_id)
        directory.departures.add(TopicPartition(partition.topic, partition.index))
        self._making.hold(str(partition))
        if not arrives:  # else the move ends first, and asks for it then
            self.leaving.take_all(partition)

    def retire_now(self, directory: Directory, name: str, aside: str) -> None:
        """What a start finds and nobody uses gets another name, and goes later. Waits for the
        disk."""
        directory.disk.rename_now(name, aside)
        self.remove_later(directory, aside)

    def remove_later(self, directory: Directory, name: str, delay_ms: int | None = None) -> None:
        """Unlink what was renamed, once nobody can be reading it any more."""
        if delay_ms is None:
            delay_ms = self._broker.settings.file_delete_delay_ms
        self.deletions.later(directory, name, delay_ms)
