"""The replicas of this node: follows the image, and opens, creates and deletes logs.

partition_creation.py makes the files of new partitions off the loop; partition_deletion.py deletes
those of deleted topics.
"""

import logging
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.partitions.partition import Partition, PartitionTotals
from penstock.broker.partitions.partition_creation import NewPartition, PartitionCreation
from penstock.broker.partitions.partition_deletion import PartitionDeletion
from penstock.broker.partitions.topic_settings import TopicSettings
from penstock.broker.storage.checkpoint_writer import Checkpointer
from penstock.broker.storage.delayed_delete import DelayedDeletions
from penstock.broker.storage.log_dir import LogDirectory
from penstock.broker.storage.move_sources import MoveSources
from penstock.broker.storage.placements import (
    Placement,
    Placements,
    PlacementState,
    Sizes,
    TopicIdPartition,
    format_placements,
)
from penstock.config.topic import TopicConfig
from penstock.controller.delta import Delta
from penstock.controller.image import BROKER, TOPIC, ConfigResourceId, Image, PartitionImage, Topic
from penstock.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.log.log import Log, LogExists
from penstock.model import NO_LEADER_EPOCH, ZERO_ID, TopicPartition, id_to_text
from penstock.observe.times import Times
from penstock.replication.leader import PartitionLeader
from penstock.replication.watermarks import restart_watermark
from penstock.world import Disk, DiskFailed, File

if TYPE_CHECKING:
    from penstock.broker.partitions.broker_view import PartitionsBroker

log = logging.getLogger("penstock.hosting")


class OfflineReplica(NamedTuple):
    """A partition of this node that cannot be used, with its directory and its checkpoints."""

    reason: str
    directory_id: bytes
    partition: TopicPartition
    recovery_point: int = 0
    start_offset: int = 0
    sizes: Sizes | None = None  # of its segments when it was last closed
    state: PlacementState = PlacementState.OFFLINE
    used_in: bytes | None = None  # the directory it was last used in, if that is another one
    may_return: bool = False  # nothing is lost: a next start may open the log


class Replicas:
    """The partitions of this node by topic name and by topic id."""

    def __init__(self, broker: "PartitionsBroker") -> None:
        self._broker = broker
        self._world = broker.world
        self.directories: list[LogDirectory] = []
        self.deletions = DelayedDeletions(broker.world)
        self.sync_times = Times()  # of all directories
        self.retired = PartitionTotals()  # of partitions that left this node
        self.checkpoints = Checkpointer(
            self,
            broker.cleaned_offsets,
            lambda: broker.metadata.describe().durable_offset,
        )
        self.placements: Placements
        self.move_sources: MoveSources
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self._settings: dict[str, TopicSettings] = {}
        self._creation = PartitionCreation(
            broker.world,
            announce=self._announce,
            choose=self._emptiest,
            forget_gone=self.checkpoints.forget_gone,
            still_wanted=self._still_wanted,
            made=self._made,
            existing=self._made_before,
            unwanted=self._unwanted,
            dropped=lambda wanted: self.placements.arrived((wanted.topic_id, wanted.index)),
            settled=self._settled,
        )
        self._offline: dict[tuple[bytes, int], OfflineReplica] = {}
        self._offline_too: dict[
            TopicIdPartition, dict[bytes, OfflineReplica]
        ] = {}  # the same in other directories
        self.deletion = PartitionDeletion(broker, self._creation)
        self._placed_at = -1  # the metadata offset at which the last partition came here
        self._when_settled: list[Callable[[], None]] = []
        self._loaded = False  # the directories have been looked through
        self._was_replaced = False  # another process was registered with the id of this node

    def use(self, directories: list[LogDirectory], metadata_disk: Disk) -> None:
        self.directories = directories
        world = self._world
        self.placements = Placements(metadata_disk, world.clock, world.timers, self._placed)
        for directory in directories:
            directory.now_ms = world.clock.mono_ms
            directory.sync_times = self.sync_times
            self._watch(directory)
        self.move_sources = MoveSources(
            world,
            self.placements,
            self.remove_later,
            lambda: self._broker.stopping,
            self._creation.stall,
        )

    def _watch(self, directory: LogDirectory) -> None:
        integrity = self._broker.integrity
        directory.on_lost = lambda failure: integrity.look_through(directory, failure)
        directory.on_first_sync = self.placements.changed
        directory.check = lambda partitions, done: integrity.check(
            directory, partitions, done, closed=True
        )

    def identity(self, directory: LogDirectory) -> bytes:
        """Return the id of a directory, or its last known id; the zero id if there is none."""
        if directory.is_identified:
            return directory.directory_id
        return next(iter(self.placements.ids_at(directory.disk.root)), ZERO_ID)

    def directory_at(self, path: str) -> LogDirectory | None:
        return next((each for each in self.directories if each.disk.root == path), None)

    def all(self) -> Iterator[Partition]:
        for partitions in self.by_name.values():
            yield from partitions.values()

    def find(
        self, topic: str | bytes, index: int, leader_epoch: int = NO_LEADER_EPOCH
    ) -> Partition:
        """Return a partition that this node leads; raise the error for clients otherwise. An epoch
        other than that of the present leader is an error before the leader itself is."""
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
        if leader_epoch != NO_LEADER_EPOCH:
            partition.leader.check_epoch(leader_epoch)
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
        if found is not None and (offline_replica := self._offline.get((found.topic_id, index))):
            return KafkaStorageError(offline_replica.reason)
        if found is not None and index in found.partitions:
            if found.partitions[index].leader != self._broker.node_id:
                return NotLeaderOrFollower(f"this node does not lead {found.name}-{index}")
        return UnknownTopicOrPartition(f"this server does not host {name}-{index}")

    # -- settings

    def settings(self, topic: str) -> TopicSettings:
        known = self._settings.get(topic)
        if known is None:
            overrides = self._broker.image.config(ConfigResourceId(TOPIC, topic))
            config = TopicConfig(overrides, self._broker.config)
            expiration_ms = self._broker.config.integer("producer.id.expiration.ms")
            known = self._settings[topic] = TopicSettings(config, expiration_ms)
            self._check_min_insync(topic, known.min_insync)
        return known

    def _check_min_insync(self, name: str, min_insync: int) -> None:
        """Warn of more required replicas than the topic has. All replicas count then, as in
        Kafka."""
        topic = self._broker.image.topics.get(name)
        partitions = topic.partitions.values() if topic is not None else ()
        replicas = min((len(each.replicas) for each in partitions), default=min_insync)
        if replicas < min_insync:
            log.warning(
                "%s: min.insync.replicas=%d is above its replication factor %d, so acks=all needs "
                "%d; lower the setting, or add replicas",
                name,
                min_insync,
                replicas,
                replicas,
            )

    def reconfigure(self, topics: list[str]) -> None:
        """Apply changed settings of topics, from the next request on."""
        for topic in topics:
            self._settings.pop(topic, None)
            for partition in self.by_name.get(topic, {}).values():
                partition.configure(self.settings(topic))
                self._broker.cleaner.configured(partition)

    # -- opening at the start

    def adopt(self, partition: Partition) -> None:
        self.by_name.setdefault(partition.topic, {})[partition.index] = partition
        self.by_id.setdefault(partition.topic_id, {})[partition.index] = partition
        partition.directory.partitions[partition] = None
        partition.directory.moved.add(partition)
        self._placed_at = self._broker.image.offset
        self.placements.arrived((partition.topic_id, partition.index))
        self.take_role(partition)

    def take_roles(self) -> Iterator[None]:
        """Lead or follow with all partitions after a start; yield after each."""
        for partition in list(self.all()):
            self.take_role(partition)
            yield

    def take_role(self, partition: Partition) -> None:
        """Lead or follow, as the image says. A truncation that runs ends before. Until all
        directories are loaded, no log may change: the marker of a clean stop is still there."""
        if not self._loaded:
            return
        topic = self._broker.image.topics.get(partition.topic)
        if topic is None or topic.topic_id != partition.topic_id or partition.gone:
            return  # the deletion of the topic follows
        state = topic.partitions[partition.index]
        followers = self._broker.followers
        if state.leader == self._broker.node_id and not self._broker.is_replaced:
            if followers.end(partition):
                partition.lead(state, self._world.clock.mono_ms())
        else:
            partition.follow(state)
            followers.follow(partition, state)
        self._broker.hosted(partition)

    def make_partition(
        self,
        topic: Topic,
        index: int,
        directory: LogDirectory,
        opened: Log,
        *,
        high_watermark: int = 0,
    ) -> Partition:
        """Return a partition on an open log, without a role. `high_watermark` is that of the
        checkpoint."""
        state = topic.partitions[index]
        counted = opened.synced_offset if directory.waits_for_sync else opened.end_offset
        settings = self.settings(topic.name)
        known = restart_watermark(high_watermark, opened.start_offset, opened.end_offset)
        broker = self._broker
        leader = PartitionLeader(
            broker.node_id,
            state.leader_epoch,
            (),
            known,
            replicas=(),
            is_eligible=broker.may_be_in_sync,
            live_epoch=broker.live_epoch,
            lag_ms_max=broker.settings.replica_lag_ms_max,
        )
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
        partition.leading = False
        if counted < opened.end_offset:
            directory.wrote(partition)  # recovered records may not be durable yet
        return partition

    def missing(self) -> list[tuple[Topic, PartitionImage]]:
        """Return partitions of the image that no directory here holds: never created, or lost."""
        return [
            (topic, state)
            for topic, state in self._broker.image.partitions()
            if self._is_placed_here(state)
            and state.partition_id not in self.by_id.get(topic.topic_id, {})
            and (topic.topic_id, state.partition_id) not in self._offline
        ]

    def create_missing(self) -> None:
        """Create the missing partitions: all directories are loaded."""
        self._loaded = True
        self.placements.begin()
        self._want_missing()
        self._creation.go_on()

    def _want_missing(self) -> None:
        for topic, state in self.missing():
            self._creation.want(NewPartition(topic.name, topic.topic_id, state.partition_id))

    def keep_offline(self, topic: Topic, index: int, offline_replica: "OfflineReplica") -> None:
        """Keep a partition offline whose log cannot be opened without a loss."""
        self._offline[topic.topic_id, index] = offline_replica
        if offline_replica.state is PlacementState.SOUGHT:
            self.placements.changed()  # its announcement counts until the log is found
        else:
            self.placements.arrived((topic.topic_id, index))

    def keep_offline_too(self, topic: Topic, index: int, offline_replica: "OfflineReplica") -> None:
        """Note files of an offline partition in one more directory. An operator may choose either:
        the checkpoints of both stay, and sizes of segments are not compared."""
        place = (topic.topic_id, index)
        known = self._offline[place]
        if known.directory_id != offline_replica.directory_id:
            self._offline[place] = known._replace(sizes=None)
            self._offline_too.setdefault(place, {})[offline_replica.directory_id] = offline_replica

    def withdraw(self, partition: Partition, reason: str) -> None:
        """Take a partition offline until the next start: nothing may be appended to its files."""
        place = (partition.topic_id, partition.index)
        directory, opened = partition.directory, partition.log
        self.by_id.get(partition.topic_id, {}).pop(partition.index, None)
        named = self.by_name.get(partition.topic, {})
        if named.get(partition.index) is partition:
            del named[partition.index]
        directory.partitions.pop(partition, None)
        directory.moved.add(partition)
        partition.gone = True
        self._broker.followers.forget(partition)
        opened.disown()
        self._offline[place] = OfflineReplica(
            reason,
            directory.directory_id,
            TopicPartition(partition.topic, partition.index),
            opened.recovery_point,
            opened.start_offset,
        )
        self.retired.add(partition)
        self._broker.unhosted(partition)
        self._broker.clear_caches()
        partition.abandon(KafkaStorageError(reason))
        self.placements.changed()

    def offline_in(self, directory: LogDirectory) -> Iterator["OfflineReplica"]:
        """Yield offline partitions of a directory, whose checkpoints must stay. Without a recovery
        point, damaged durable records would be truncated like a lost tail."""
        for place, each in self._offline.items():
            if each.directory_id == directory.directory_id:
                yield each
            elif (too := self._offline_too.get(place, {}).get(directory.directory_id)) is not None:
                yield too

    def store_offline_now(self) -> None:
        """Store offline partitions before the markers of the clean stop are removed."""
        if self._offline:
            self.placements.store_now()

    def offline(self) -> Iterator[tuple[TopicIdPartition, "OfflineReplica"]]:
        yield from self._offline.items()

    def offline_replica(self, place: TopicIdPartition) -> "OfflineReplica | None":
        return self._offline.get(place)

    @property
    def sought(self) -> Container[TopicIdPartition]:
        return {
            each
            for each, offline_replica in self._offline.items()
            if offline_replica.state is PlacementState.SOUGHT
        }

    @property
    def kept_offline_count(self) -> int:
        return len(self._offline)

    def is_to_be_created(self, topic: Topic, state: PartitionImage) -> bool:
        """Return whether this node leads a partition whose log is not created yet. Clients see no
        leader until then: pipelined batches would fail."""
        index = state.partition_id
        if state.leader != self._broker.node_id or self.is_kept_offline(topic.topic_id, index):
            return False
        return index not in self.by_id.get(topic.topic_id, {})

    def is_kept_offline(self, topic_id: bytes, index: int) -> bool:
        return (topic_id, index) in self._offline

    def is_offline(self, topic_id: bytes, index: int) -> bool:
        """Return whether a partition of this node cannot be used."""
        hosted = self.by_id.get(topic_id, {}).get(index)
        return self.is_kept_offline(topic_id, index) if hosted is None else hosted.is_offline

    # -- where they are

    def _placed(self) -> bytes:
        """Return the content of the file of placements."""
        paths: dict[bytes, str] = {}
        for directory in self.directories:
            before = self.placements.ids_at(directory.disk.root)
            ids = [directory.directory_id] if directory.is_identified else before
            paths.update(dict.fromkeys(ids, directory.disk.root))
        placed: list[tuple[TopicIdPartition, Placement]] = []
        lost_sizes: dict[TopicIdPartition, Sizes] = {}
        for directory in self.directories:
            made = Placement(directory.directory_id, PlacementState.MADE)
            durable = Placement(directory.directory_id, PlacementState.DURABLE)
            offline = Placement(directory.directory_id, PlacementState.OFFLINE)
            for each in directory.partitions:
                durable_to = min(each.log.synced_offset, each.log.truncated_from)
                where = durable if durable_to > 0 else made
                if each.log.lost is not None:
                    where = offline
                    lost_sizes[each.topic_id, each.index] = each.log.sizes()
                placed.append(((each.topic_id, each.index), where))
        for place, offline_replica in self._offline.items():
            where_it_was = offline_replica.used_in or offline_replica.directory_id
            placed.append((place, Placement(where_it_was, offline_replica.state)))
            known = self.placements.paths.get(where_it_was)
            if known is not None:
                paths.setdefault(where_it_was, known)
        names = dict(self.move_sources.names)
        for (topic_id, _), offline_replica in self._offline.items():
            names[topic_id] = offline_replica.partition.topic
        for topic_id, partitions in self.by_id.items():
            for each in islice(partitions.values(), 1):
                names[topic_id] = each.topic
        sizes = {place: each.sizes for place, each in self._offline.items() if each.sizes}
        sizes |= lost_sizes
        left = dict(self.move_sources.left)
        for place, others in self._offline_too.items():
            left[place] = list(dict.fromkeys([*left.get(place, ()), *others]))
        return format_placements(placed, paths, sizes, names, self._placed_at, left)

    def start_offsets_moved(
        self,
        directories: list[LogDirectory],
        done: Callable[[LogDirectory, DiskFailed | None], None] | None = None,
    ) -> None:
        """Make new log start offsets durable. `done` is called for each directory."""
        for directory in directories:
            if not directory.failed:
                stored = None if done is None else partial(done, directory)
                self.checkpoints.start_offsets(directory, stored)

    def moved(self, partition: Partition, source: LogDirectory, target: LogDirectory) -> None:
        """Switch a partition to another directory, after its move."""
        source.partitions.pop(partition, None)
        source.forget(partition)
        source.moved.add(partition)
        partition.directory = target
        if partition.gone:
            return
        target.partitions[partition] = None
        partition.synced()
        self._broker.placed(partition)
        self._broker.cleaned_offsets.move(partition, source)
        source.stale_checkpoints.add(TopicPartition(partition.topic, partition.index))
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
        if self._was_replaced and not self._broker.is_replaced and self._loaded:
            self._want_missing()  # those that were made while another process had the id
        self._was_replaced = self._broker.is_replaced
        self._follow_configs(image, delta)
        self._creation.go_on()

    def _follow_configs(self, image: Image, delta: Delta) -> None:
        kinds = {resource.kind for resource in delta.configs}
        if BROKER in kinds:
            self.reconfigure(list(image.topics))
        else:
            self.reconfigure([each.name for each in delta.configs if each.kind == TOPIC])

    def _changed(self, topic: Topic, state: PartitionImage) -> None:
        hosted = self.by_id.get(topic.topic_id, {}).get(state.partition_id)
        if hosted is None:
            # Before the directories are loaded, a missing log may still be found.
            offline_replica = self.is_kept_offline(topic.topic_id, state.partition_id)
            if self._is_placed_here(state) and self._loaded and not offline_replica:
                self._creation.want(NewPartition(topic.name, topic.topic_id, state.partition_id))
        elif self._is_placed_here(state) or self._broker.is_replaced:
            self.take_role(hosted)
        else:
            self._leave(hosted)

    def _leave(self, partition: Partition) -> None:
        """Delete a replica that was moved to another node. Only a committed image says so."""
        del self.by_name[partition.topic][partition.index]
        del self.by_id[partition.topic_id][partition.index]
        self.placements.changed()
        self._remove(partition)
        if partition.log.start_offset > 0 and not partition.directory.failed:
            self.checkpoints.start_offsets(partition.directory)

    def _is_placed_here(self, state: PartitionImage) -> bool:
        """Return whether this node has a replica. Replicas of another process that is registered
        with the same id are not here."""
        return self._broker.node_id in state.replicas and not self._broker.is_replaced

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call when every partition of the image is created here."""
        self._when_settled.append(call)
        self._creation.go_on()

    def stop_creating(self) -> None:
        """Stop creating logs; the next start creates the others."""
        self._creation.stop()

    @property
    def creating(self) -> bool:
        """Return whether files of a partition are being made."""
        return self._creation.working

    def _settled(self) -> None:
        if self._when_settled:
            settled, self._when_settled = self._when_settled, []
            for call in settled:
                call()
            self._broker.touch()

    # -- creating

    def _announce(self, wanted: Sequence[NewPartition], done: Callable[[], None]) -> None:
        coming = {(each.topic_id, each.index): each.topic for each in wanted}
        paths = {each.directory_id: each.disk.root for each in self.directories if not each.failed}
        self.placements.announce(coming, paths, self._broker.image.offset, done)

    def _still_wanted(self, wanted: NewPartition) -> bool:
        """Return whether a partition still needs a log. After two changes of the image, the log may
        exist already: a second one would hide the first."""
        topic = self._broker.image.topics.get(wanted.topic)
        if topic is None or topic.topic_id != wanted.topic_id:
            return False
        return wanted.index not in self.by_id.get(wanted.topic_id, {})

    def _made(self, wanted: NewPartition, directory: LogDirectory, file: File) -> None:
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

    def _unwanted(self, wanted: NewPartition, directory: LogDirectory) -> None:
        self.deletion.take(wanted, directory)

    def _made_before(self, wanted: NewPartition, directory: LogDirectory, error: LogExists) -> None:
        topic = self._broker.image.topics.get(wanted.topic)
        if topic is not None and topic.topic_id == wanted.topic_id:
            partition = TopicPartition(wanted.topic, wanted.index)
            offline_replica = OfflineReplica(
                f"{partition} stays offline: {error}. Move that out of log.dirs and start again",
                directory.directory_id,
                partition,
                state=PlacementState.SOUGHT,
            )
            self.keep_offline(topic, wanted.index, offline_replica)
        else:
            self.placements.arrived((wanted.topic_id, wanted.index))

    def _emptiest(self) -> LogDirectory | None:
        """Return the working directory with the fewest partitions, the first of equals. Nearly full
        directories come last."""
        working = [each for each in self.directories if not each.failed]
        working = [each for each in working if not each.rejects_writes] or working
        return min(working, key=lambda each: len(each.partitions) + each.creating, default=None)

    # -- forgetting

    def still_left(self, place: TopicIdPartition, topic: str, directory_id: bytes) -> None:
        """Note that a directory still holds files of a deleted or moved partition."""
        self.move_sources.note(place, topic, directory_id)
        self._placed_at = self._broker.image.offset

    def _forget_topic(self, name: str, topic_id: bytes) -> None:
        self._settings.pop(name, None)
        partitions = self.by_id.pop(topic_id, {})
        offline_replica = [each for each in self._offline if each[0] == topic_id]
        if offline_replica:
            self._remove_offline(offline_replica)
        self.placements.changed()
        named = self.by_name.get(name)
        if named is not None and (not named or named.keys() == partitions.keys()):
            del self.by_name[name]
        had_starts: dict[LogDirectory, None] = {}
        for partition in partitions.values():
            if partition.log.start_offset > 0:
                had_starts[partition.directory] = None
            self._remove(partition)
        for directory in had_starts:
            if not directory.failed:
                self.checkpoints.start_offsets(directory)

    def _remove_offline(self, places: Sequence[TopicIdPartition]) -> None:
        offline_replica = {place: self._offline.pop(place) for place in places}
        for place, each in offline_replica.items():
            found_in = {each.directory_id, *self._offline_too.pop(place, {})}
            for directory in self.directories:
                if directory.directory_id in found_in and not directory.failed:
                    directory.stale_checkpoints.add(each.partition)
        self.deletion.remove_offline(offline_replica)

    def _remove(self, partition: Partition) -> None:
        directory = partition.directory
        directory.partitions.pop(partition, None)
        directory.moved.add(partition)
        partition.gone = True
        self._broker.followers.forget(partition)
        partition.log.disown()
        arrives = self._broker.moves.forget(partition)
        self.retired.add(partition)
        self._broker.unhosted(partition)
        partition.abandon(UnknownTopicOrPartition(f"{partition} was deleted"))
        place = (partition.topic_id, partition.index)
        self.move_sources.note(place, partition.topic, directory.directory_id)
        directory.stale_checkpoints.add(TopicPartition(partition.topic, partition.index))
        self._creation.hold(str(partition))
        if not arrives:  # else the end of the move deletes them
            self.deletion.take_all(partition)

    def retire_now(self, directory: LogDirectory, name: str, aside: str) -> None:
        """Rename an unused directory, and remove it later. Waits for the disk."""
        directory.disk.rename_now(name, aside)
        self.remove_later(directory, aside)

    def remove_later(self, directory: LogDirectory, name: str, delay_ms: int | None = None) -> None:
        """Remove a renamed file or directory after a delay, when no reader uses it any more."""
        if delay_ms is None:
            delay_ms = self._broker.settings.file_delete_delay_ms
        self.deletions.later(directory, name, delay_ms)
