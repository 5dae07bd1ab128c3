"""The broker: what a turn touches, what is done when it ends, and where handlers find things."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.broker.auto_topics import AutoTopics
from penstock.broker.backlog import Backlog
from penstock.broker.cleaning.cleaning import Cleaning
from penstock.broker.connection import Connection
from penstock.broker.directory import Directory
from penstock.broker.entrance import Entrance
from penstock.broker.flushing import Flushing
from penstock.broker.frames import FramePool
from penstock.broker.handlers.k00_produce import PRODUCE_TIMED_OUT
from penstock.broker.hosting import Hosting
from penstock.broker.integrity import Integrity
from penstock.broker.listener import Listener
from penstock.broker.metadata_memo import MetadataMemo
from penstock.broker.metrics.counts import Counts
from penstock.broker.moves import Moves
from penstock.broker.observe import Observer
from penstock.broker.partition import Partition
from penstock.broker.produce_memo import ProduceMemo
from penstock.broker.producer_ids import ProducerIdSource
from penstock.broker.progress import Reporter
from penstock.broker.recompression import Recompression
from penstock.broker.recovering import Recovering
from penstock.broker.request import Request
from penstock.broker.sessions import FetchSet, Sessions
from penstock.broker.settings import Settings
from penstock.broker.sliced_work import SlicedWork
from penstock.broker.unpacking import Unpacking, complaint
from penstock.config.broker import BrokerConfig
from penstock.controller.delta import Delta
from penstock.controller.image import BROKER, EVERY_BROKER, ConfigResource, Image
from penstock.errors import CorruptMessage, KafkaError, KafkaStorageError, RequestTimedOut
from penstock.model import INTERNAL_TOPICS
from penstock.raft.quorum import QuorumView
from penstock.world import Cold, Disk, DiskFailed, Timer, World

if TYPE_CHECKING:
    from penstock.broker.coordinators import Coordinators

log = logging.getLogger("penstock.broker")

EXPIRY_INTERVAL_MS = 100
T = TypeVar("T")


class Metadata(Protocol):
    """What the broker needs of the cluster's metadata."""

    @property
    def image(self) -> Image: ...

    @property
    def cluster_id(self) -> str: ...

    def submit(self, message: Any, version: int, done: Callable[[Any], None]) -> None:
        """Hand a request to the controller; `done` gets the response or a KafkaError."""
        ...

    def describe(self) -> QuorumView: ...


class Broker:
    """Everything that the requests of one node share. Used on the loop only."""

    def __init__(self, world: World, config: BrokerConfig, metadata: Metadata) -> None:
        self.world = world
        self.static_config = config
        self.config = config
        self.settings = Settings.of(config)
        self.node_id = config.node_id
        self.metadata = metadata
        self.image = metadata.image
        world.workers.use(self.settings.background_threads)
        self.sliced_work = SlicedWork(world.clock, world.timers)
        self.frames = FramePool(self.settings.request_bytes_max)
        self.backlog = Backlog(self.frames, self.settings.requests_max)
        self.unpacking = Unpacking(world)
        self.recompression = Recompression(self)
        self.observe = Observer()
        self.counts = Counts()
        self.reporters: list[Reporter] = []  # those who have long duties
        self.produce_memo = ProduceMemo()
        self.metadata_memo = MetadataMemo()
        self.auto_topics = AutoTopics(self)
        self.sessions = Sessions(
            self.settings.session_slots,
            self.settings.session_eviction_ms,
            lambda: world.entropy.random_ms(1, 0x7FFFFFFF),
            self.sliced_work.begin,
        )
        self.hosting = Hosting(self)
        self.integrity = Integrity(self)
        self.recovering = Recovering(world.clock)
        self.reporters += (self.hosting.deletions, self.recovering)
        self.cleaning = Cleaning(self)
        self.reporters.append(self.cleaning)
        self.moves = Moves(self)
        self.reporters.append(self.moves)
        self.producer_ids = ProducerIdSource(self)
        self.listeners: list[Listener] = []
        self.entrance = Entrance(self)
        self.flushing = Flushing(self)
        self.wall_ms = world.clock.wall_ms()
        self.produced_ms = 0.0  # when the first of this turn's Produce requests came; 0 if none has
        self.find = self.hosting.find
        self.ready = False  # clients are served
        self.stopping = False
        self.touched = False
        self._partitions: list[Partition] = []
        self._connections: list[Connection] = []
        self._reconsider: list[Callable[[], None]] = []
        self._expiry_due = False
        self._coordinators: Coordinators | None = None

    @property
    def coordinators(self) -> "Coordinators":
        """Made when first asked for: a node without groups does not load their code."""
        if self._coordinators is None:
            from penstock.broker.coordinators import Coordinators

            self._coordinators = Coordinators(self)
        return self._coordinators

    @property
    def known_coordinators(self) -> "Coordinators | None":
        """Those that somebody has asked for already."""
        return self._coordinators

    def hosted(self, partition: Partition) -> None:
        """A partition is here, or its leadership has changed."""
        self.cleaning.hosted(partition)
        if partition.topic in INTERNAL_TOPICS:
            self.coordinators.hosted(partition)

    def unhosted(self, partition: Partition) -> None:
        self.cleaning.unhosted(partition)
        if partition.topic in INTERNAL_TOPICS:
            self.coordinators.unhosted(partition)

    def drain_coordinators(self) -> None:
        if self._coordinators is not None:
            self._coordinators.dismiss()

    def stop_coordinators(self) -> None:
        if self._coordinators is not None:
            self._coordinators.stop()

    def use_directories(self, directories: list[Directory], metadata_disk: Disk) -> None:
        for directory in directories:
            directory.flushing = self.flushing
        self.hosting.use(directories, metadata_disk)
        self.cleaning.load(directories)

    # -- a turn

    def touch(self) -> None:
        """Something happened that the end of this turn has to look at; its clock is read once."""
        if not self.touched:
            self.touched = True
            self.wall_ms = self.world.clock.wall_ms()
            self.world.timers.after_turn(self._end_turn)

    def touch_partition(self, partition: Partition) -> None:
        partition.touched = True
        self._partitions.append(partition)
        if not self.touched:
            self.touch()

    def touch_connection(self, connection: Connection) -> None:
        self._connections.append(connection)
        if not self.touched:
            self.touch()

    def reconsider(self, call: Callable[[], None]) -> None:
        """Run at the end of this turn, after the appends and before the sends."""
        self._reconsider.append(call)
        if not self.touched:
            self.touch()

    def append_now(self) -> None:
        """Write what this turn has produced so far: at its end, or before somebody asks for ends
        of logs, since a client that pipelines expects to see what it wrote before."""
        if not self._partitions:
            return
        partitions, self._partitions = self._partitions, []
        self._append(partitions)

    def append_watched(self, fetch_set: FetchSet) -> None:
        """The same for what a fetch asks for, and for no other partition."""
        if not self._partitions:
            return
        watched, uses_ids = fetch_set.watched, fetch_set.uses_ids
        asked: list[Partition] = []
        others: list[Partition] = []
        for each in self._partitions:
            place = (each.topic_id if uses_ids else each.topic, each.index)
            (asked if place in watched else others).append(each)
        if asked:
            self._partitions = others
            self._append(asked)

    def _append(self, partitions: list[Partition]) -> None:
        mono_ms = self.world.clock.mono_ms()
        first = partitions[0].tickets  # whoever touches a partition has a ticket in it
        self.produced_ms = first[0][1].active_at_ms if first else mono_ms
        for partition in partitions:
            partition.append_turn(self.wall_ms, mono_ms)
        if not self._expiry_due and any(each.awaiting for each in partitions):
            self._schedule_expiry(mono_ms)

    def _end_turn(self) -> None:
        self.append_now()
        for directory in self.hosting.directories:
            directory.turn_ended()
        while self._reconsider:
            waiting, self._reconsider = self._reconsider, []
            for call in waiting:
                call()
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.flush()
        self.touched = False
        self.frames.turn_ended()
        if self.produced_ms:
            took_ms = self.world.clock.mono_ms() - self.produced_ms
            self.produced_ms = 0.0
            self.counts.turn_ended(sum(self.produce_memo.requests), took_ms)

    def _schedule_expiry(self, mono_ms: float) -> None:
        self._expiry_due = True
        self.world.timers.at(mono_ms + EXPIRY_INTERVAL_MS, self._expire)

    def _expire(self) -> None:
        self._expiry_due = False
        mono_ms = self.world.clock.mono_ms()
        waiting = False
        for partition in self.hosting.all():
            if partition.awaiting:
                partition.expire(mono_ms, PRODUCE_TIMED_OUT)
                waiting = waiting or bool(partition.awaiting)
        if waiting:
            self._schedule_expiry(mono_ms)
            self.touch()  # a round that lacked descriptors begins again

    # -- metadata

    def follow(self, image: Image, delta: Delta) -> None:
        """A new image is committed."""
        self.image = image
        self.forget_memos()
        own = ConfigResource(BROKER, str(self.node_id))
        if any(resource in (own, EVERY_BROKER) for resource in delta.configs):
            self.reconfigure()
        self.hosting.follow(image, delta)
        if self._coordinators is not None:
            self._coordinators.follow(delta)

    def forget_memos(self) -> None:
        """What was remembered may not be true any more."""
        self.produce_memo.clear()
        self.metadata_memo.clear()

    def reconfigure(self) -> None:
        """Dynamic broker settings hold from now on."""
        own = ConfigResource(BROKER, str(self.node_id))
        self.config = self.static_config.with_dynamic(
            self.image.config(own), self.image.config(EVERY_BROKER)
        )
        self.settings = Settings.of(self.config)
        self.cleaning.reconfigured()
        for reason in self.config.ignored:
            log.warning("a dynamic setting is ignored: %s", reason)
        for listener in self.listeners:
            listener.frame_bytes_max = self.settings.socket_request_bytes_max
        self.entrance.reconfigured()
        self.world.workers.use(self.settings.background_threads)

    def ask_controller(
        self,
        request: Request,
        message: Any,
        on_error: Callable[[KafkaError], Any],
        on_answer: Callable[[Any], Any] = lambda response: response,
        timeout_ms: int | None = None,
    ) -> None:
        """Let the controller answer; not before this node has taken its decision over. The
        controller has `timeout_ms` for it, and may decide all the same after that."""
        timer: Timer | None = None

        def late() -> None:
            request.reply(on_error(RequestTimedOut("the controller did not answer in time")))

        def done(result: Any) -> None:
            if timer is not None:
                timer.cancel()
            response = on_error(result) if isinstance(result, KafkaError) else result
            self.hosting.when_settled(lambda: request.run(lambda: settled(response)))

        def settled(response: Any) -> None:
            answer = on_answer(response)
            if not request.answered:
                request.reply(answer)

        if timeout_ms is not None:
            at = self.world.clock.mono_ms() + timeout_ms
            timer = self.world.timers.at(at, lambda: request.run(late))
        self.metadata.submit(message, request.api_version, done)

    # -- the disk, without waiting for it

    def when_warm(
        self, look: Callable[[], T], done: Callable[[T], None], failed: Callable[[KafkaError], None]
    ) -> None:
        """Call `look` until what it reads is in memory; then `done` with what it found."""
        try:
            result = look()
        except Cold as cold:

            def warmed(failure: DiskFailed | None) -> None:
                if failure is None:
                    self.when_warm(look, done, failed)
                else:
                    failed(KafkaStorageError(str(failure)))

            self.counts.cold_reads += 1
            cold.file.warm(cold.position, cold.size, warmed)
        except Exception as error:  # it comes from a callback: nobody above could answer it
            failed(complaint(error, CorruptMessage))
        else:
            done(result)
