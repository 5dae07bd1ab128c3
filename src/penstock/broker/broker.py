"""The broker: the parts that all requests of a node share, and the turn that they run in."""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.broker.access import AccessControl
from penstock.broker.background.throttled_log import ThrottledLog
from penstock.broker.cleaner.cleaner import Cleaner
from penstock.broker.fetch.sessions import SESSION_EVICTION_MS, FetchSessions, FetchSet
from penstock.broker.handlers import CONTROLLER
from penstock.broker.handlers.k00_produce import PRODUCE_TIMED_OUT
from penstock.broker.links.broker_links import BrokerLinks
from penstock.broker.metadata.auto_topics import AutoTopics
from penstock.broker.metadata.cluster_metadata import Metadata
from penstock.broker.metadata.leader_elections import LeaderElections
from penstock.broker.metadata.metadata_cache import MetadataCache
from penstock.broker.moves.moves import ReplicaMoves
from penstock.broker.network.backpressure import Backpressure
from penstock.broker.network.connection import BrokerConnection
from penstock.broker.network.connection_limits import ConnectionLimits
from penstock.broker.network.frames import FramePool
from penstock.broker.network.listener import BrokerListener
from penstock.broker.network.long_requests import PART_OF_REQUEST_BYTES, LongRequests
from penstock.broker.network.node_tls import NodeTls
from penstock.broker.partitions.integrity import Integrity
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.replicas import Replicas
from penstock.broker.produce.produce_cache import ProduceCache
from penstock.broker.produce.recompression import Recompression
from penstock.broker.produce.unpacking import Unpacking, to_kafka_error
from penstock.broker.progress import ProgressReporter
from penstock.broker.replication.directory_reports import DirectoryReports
from penstock.broker.replication.followers import Followers
from penstock.broker.replication.isr_changes import IsrChanges
from penstock.broker.request import ClientRequest
from penstock.broker.request_metrics import RequestMetrics
from penstock.broker.settings import BrokerSettings
from penstock.broker.sliced_work import SlicedWork
from penstock.broker.startup.recovery_progress import RecoveryProgress
from penstock.broker.storage.cleaner_offsets import CleanedOffsets
from penstock.broker.storage.flushing import FlushScheduler
from penstock.broker.storage.log_dir import LogDirectory
from penstock.broker.throttle import Throttle, tells_of_quotas
from penstock.broker.transactions.transactions import ProducerIdSource
from penstock.config.broker import BrokerConfig
from penstock.controller.delta import Delta
from penstock.controller.image import BROKER, EVERY_BROKER, ConfigResourceId, Image
from penstock.errors import (
    CorruptMessage,
    KafkaError,
    KafkaStorageError,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
)
from penstock.model import INTERNAL_TOPICS
from penstock.world import Cold, Disk, DiskFailed, Timer, World

if TYPE_CHECKING:
    from penstock.broker.coordinators.coordinators import Coordinators

log = logging.getLogger("penstock.broker")

EXPIRY_INTERVAL_MS = 100
T = TypeVar("T")


class Broker:
    """The state that all requests of one node share. Used on the loop only."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        metadata: Metadata,
        links: BrokerLinks,
        tls: NodeTls,
    ) -> None:
        self.world = world
        self.links = links
        self.tls = tls
        self.static_config = config
        self.config = config
        self.settings = BrokerSettings.of(config)
        self.node_id = config.node_id
        self.incarnation_ids: tuple[bytes, ...] = ()  # of this process, once it registers
        self.metadata = metadata
        self.image = metadata.image
        self.access = AccessControl(world, config, self.image, is_loaded=metadata.is_active)
        self.elections = LeaderElections()
        world.workers.use(self.settings.background_threads)
        self.sliced_work = SlicedWork(world.clock, world.timers)
        self.frames = FramePool(self.settings.request_bytes_max)
        self.backpressure = Backpressure(self.frames, self.settings.requests_max)
        self.long_requests = LongRequests(self.settings.request_bytes_max // PART_OF_REQUEST_BYTES)
        self.unpacking = Unpacking(world)
        self.recompression = Recompression(self)
        self.rejections = ThrottledLog()
        self.request_metrics: RequestMetrics = RequestMetrics()
        self.reporters: list[ProgressReporter] = []  # parts with long tasks
        self.produce_cache: ProduceCache = ProduceCache(by_caller=self.access.enabled)
        self.throttle = Throttle(world.clock, world.timers, config)
        self._follow_quotas()
        self.metadata_cache = MetadataCache()
        self.auto_topics = AutoTopics(metadata)
        self.sessions = self._make_sessions()
        self.cleaned_offsets = CleanedOffsets()
        self.replicas = Replicas(self)
        self.integrity = Integrity(self)
        self.recovery_progress = RecoveryProgress(world.clock)
        self.cleaner = Cleaner(self)
        self.moves = ReplicaMoves(self)
        self.reporters += (self.replicas.deletions, self.recovery_progress)
        self.reporters += (self.cleaner, self.moves)
        self.followers = Followers(self)
        self.isr_changes = IsrChanges(self)
        self.directory_reports = DirectoryReports(self)
        self.producer_ids = ProducerIdSource(self)
        self.listeners: list[BrokerListener] = []
        self.connection_limits: ConnectionLimits = ConnectionLimits(self)
        flush_ms = config.integer("log.flush.scheduler.interval.ms")
        self.flushing = FlushScheduler(world.clock, world.timers, self.touch, flush_ms)
        self.wall_ms = world.clock.wall_ms()
        self.produced_ms = 0.0  # when the first of this turn's Produce requests came; 0 if none has
        self.find = self.replicas.find
        self.ready = False  # clients are served
        self.stopping = False
        self.touched = False
        self._partitions: list[Partition] = []
        self._connections: list[BrokerConnection] = []
        self._reconsider: list[Callable[[], None]] = []
        self._expiry_due = False
        self._coordinators: Coordinators | None = None

    def _make_sessions(self) -> FetchSessions:
        return FetchSessions(
            self.settings.session_slots,
            SESSION_EVICTION_MS,
            lambda: self.world.entropy.random_ms(1, 0x7FFFFFFF),
            self.sliced_work.begin,
        )

    @property
    def coordinators(self) -> "Coordinators":
        """Return the coordinators, made on first use: preload.py has loaded their code by then, if
        the node was ready for a moment."""
        if self._coordinators is None:
            from penstock.broker.coordinators.coordinators import Coordinators

            self._coordinators = Coordinators(self)
        return self._coordinators

    @property
    def known_coordinators(self) -> "Coordinators | None":
        """Return the coordinators if a client has needed one, else None."""
        return self._coordinators

    def hosted(self, partition: Partition) -> None:
        """Tell the cleaner and the coordinators of a partition that arrived or changed its
        leader."""
        self.cleaner.hosted(partition)
        self.placed(partition)
        if partition.topic in INTERNAL_TOPICS:
            self.coordinators.hosted(partition)

    def placed(self, partition: Partition) -> None:
        """Report where a replica is, or that its log is lost."""
        self.directory_reports.look(partition)

    def unhosted(self, partition: Partition) -> None:
        self.cleaner.unhosted(partition)
        self.placed(partition)
        if partition.topic in INTERNAL_TOPICS:
            self.coordinators.unhosted(partition)

    def drain_coordinators(self) -> None:
        if self._coordinators is not None:
            self._coordinators.dismiss()

    def stop_coordinators(self) -> None:
        if self._coordinators is not None:
            self._coordinators.stop()

    def use_directories(self, directories: list[LogDirectory], metadata_disk: Disk) -> None:
        for directory in directories:
            directory.flushing = self.flushing
        self.replicas.use(directories, metadata_disk)
        self.cleaner.load(directories)

    # -- a turn

    def touch(self) -> None:
        """Have the end of this turn run; read the wall clock once for the turn."""
        if not self.touched:
            self.touched = True
            self.wall_ms = self.world.clock.wall_ms()
            self.world.timers.after_turn(self._end_turn)

    def touch_partition(self, partition: Partition) -> None:
        partition.touched = True
        self._partitions.append(partition)
        if not self.touched:
            self.touch()

    def touch_connection(self, connection: BrokerConnection) -> None:
        self._connections.append(connection)
        if not self.touched:
            self.touch()

    def reconsider(self, call: Callable[[], None]) -> None:
        """Call at the end of this turn, after the appends and before the sends."""
        self._reconsider.append(call)
        if not self.touched:
            self.touch()

    def append_now(self) -> None:
        """Write the batches of this turn: at its end, or before a request reads the end of a log. A
        client that pipelines expects to see its own earlier writes."""
        if not self._partitions:
            return
        partitions, self._partitions = self._partitions, []
        self._append(partitions)

    def append_watched(self, fetch_set: FetchSet) -> None:
        """Write the batches of the partitions that a fetch names, and of no others."""
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
        first = partitions[0].tickets  # a touched partition has a ticket
        self.produced_ms = first[0][1].active_at_ms if first else mono_ms
        for partition in partitions:
            partition.append_turn(self.wall_ms, mono_ms)
        if not self._expiry_due and any(each.awaiting for each in partitions):
            self._schedule_expiry(mono_ms)

    def _end_turn(self) -> None:
        self.append_now()
        for directory in self.replicas.directories:
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
            self.request_metrics.turn_ended(sum(self.produce_cache.requests), took_ms)

    def _schedule_expiry(self, mono_ms: float) -> None:
        self._expiry_due = True
        self.world.timers.at(mono_ms + EXPIRY_INTERVAL_MS, self._expire)

    def _expire(self) -> None:
        self._expiry_due = False
        mono_ms = self.world.clock.mono_ms()
        waiting = False
        for partition in self.replicas.all():
            if partition.awaiting:
                partition.expire(mono_ms, PRODUCE_TIMED_OUT)
                waiting = waiting or bool(partition.awaiting)
        if waiting:
            self._schedule_expiry(mono_ms)
            self.touch()  # a round that lacked descriptors begins again

    # -- metadata

    @property
    def is_replaced(self) -> bool:
        """Return whether another process is registered with the id of this node."""
        known = self.image.brokers.get(self.node_id)
        if known is None or not self.incarnation_ids:
            return False
        return known.incarnation_id not in self.incarnation_ids

    @property
    def broker_epoch(self) -> int:
        """Return the epoch of this broker in the image; -1 if it is not registered."""
        known = self.image.brokers.get(self.node_id)
        return -1 if known is None else known.epoch

    def may_be_in_sync(self, node_id: int, broker_epoch: int) -> bool:
        """Return whether a broker serves, in the incarnation with this epoch (-1 for any)."""
        known = self.image.brokers.get(node_id)
        return known is not None and known.active and broker_epoch in (-1, known.epoch)

    def live_epoch(self, node_id: int) -> int:
        """Return the epoch of a broker that is not fenced; -1 for all others."""
        known = self.image.brokers.get(node_id)
        return -1 if known is None or known.fenced else known.epoch

    def follow(self, image: Image, delta: Delta) -> None:
        """Take over a new image of the metadata."""
        self.elections.follow(self.image, image, delta, is_active=self.metadata.is_active)
        self.image = image
        if delta.acls:
            self.append_now()  # under the rules of before
        self.access.follow(image, delta)
        if self.metadata.is_active:
            self.access.open()
        self.clear_caches()
        self._follow_quotas()
        own = ConfigResourceId(BROKER, str(self.node_id))
        if any(resource in (own, EVERY_BROKER) for resource in delta.configs):
            self.reconfigure()
        if delta.scram:
            for listener in self.listeners:
                listener.close_removed_users()
        self.replicas.follow(image, delta)
        if self._coordinators is not None:
            self._coordinators.follow(delta)

    def _follow_quotas(self) -> None:
        if self.throttle.follow(self.image):
            throttle = self.throttle
            self.produce_cache.metered = throttle.limits_produce or throttle.limits_requests

    def clear_caches(self) -> None:
        """Empty the caches of produce routes and of encoded topics."""
        self.produce_cache.clear()
        self.metadata_cache.clear()

    def reconfigure(self) -> None:
        """Apply the dynamic broker settings of the image."""
        own = ConfigResourceId(BROKER, str(self.node_id))
        self.config = self.static_config.with_dynamic(
            self.image.config(own), self.image.config(EVERY_BROKER)
        )
        self.settings = BrokerSettings.of(self.config)
        self.cleaner.reconfigured()
        for reason in self.config.ignored:
            log.warning("a dynamic setting is ignored: %s", reason)
        for listener in self.listeners:
            listener.reconfigured()
        self.connection_limits.reconfigured()
        self.tls.follow(self.config)
        self.world.workers.use(self.settings.background_threads)

    def try_own_settings(
        self, changes: Mapping[str, str | None], done: Callable[[str | None], None]
    ) -> None:
        """Try the stores of this broker as changes of its dynamic settings would have them. `done`
        gets the reason of a failure, on a later turn."""
        own = self.image.config(ConfigResourceId(BROKER, str(self.node_id)))
        after = {name: text for name, text in {**own, **changes}.items() if text is not None}
        config = self.static_config.with_dynamic(after, self.image.config(EVERY_BROKER))
        self.tls.reload(config, done, only_try=True)

    def ask_controller(
        self,
        request: ClientRequest,
        message: Any,
        on_error: Callable[[KafkaError], Any],
        on_answer: Callable[[Any], Any] = lambda response: response,
        timeout_ms: int | None = None,
        mutations: int = 0,
    ) -> None:
        """Reply with the controller's answer. After `timeout_ms` the reply is an error, while the
        controller may still decide. A client gets the answer when this node has applied the
        decision; a controller listener asks the controller of this node only. `mutations` are the
        partitions that the request creates or deletes, which clients have quotas of."""
        wait_ms = self.throttle.mutate(request, mutations) if self.metadata.is_active else 0
        if wait_ms and tells_of_quotas(request.api_key, request.api_version):
            answer = on_answer(on_error(ThrottlingQuotaExceeded()))
            answer.throttle_time_ms = wait_ms
            self._reply_throttled(request, answer)
            return
        timer: Timer | None = None
        is_client = request.connection.listener.kind != CONTROLLER

        def late() -> None:
            request.reply(on_error(RequestTimedOut("the controller did not answer in time")))

        def done(result: Any) -> None:
            if timer is not None:
                timer.cancel()
            response = on_error(result) if isinstance(result, KafkaError) else result
            if is_client:
                self.replicas.when_settled(lambda: request.run(lambda: settled(response)))
            else:
                request.run(lambda: settled(response))

        def settled(response: Any) -> None:
            answer = on_answer(response)
            if wait_ms:
                answer.throttle_time_ms = max(answer.throttle_time_ms, wait_ms)
            if not request.answered:
                self._reply_throttled(request, answer)

        if timeout_ms is not None:
            at = self.world.clock.mono_ms() + timeout_ms
            timer = self.world.timers.at(at, lambda: request.run(late))
        if is_client:
            client_id = request.client_id or ""
            self.metadata.submit(message, request.api_version, done, request.caller, client_id)
        else:
            self.metadata.submit_here(message, request.api_version, done)

    def _reply_throttled(self, request: ClientRequest, answer: Any) -> None:
        """Reply; a client whose answer names a wait is not read from for so long. A controller
        listener goes on: a connection of another node brings the requests of all its clients."""
        wait_ms = getattr(answer, "throttle_time_ms", 0)
        if wait_ms and request.connection.listener.kind != CONTROLLER:
            self.throttle.mute(request.connection, wait_ms)
        request.reply(answer)

    # -- the disk, without waiting for it

    def when_warm(
        self, look: Callable[[], T], done: Callable[[T], None], failed: Callable[[KafkaError], None]
    ) -> None:
        """Call `look` until its data is in memory; then call `done` with its result."""
        try:
            result = look()
        except Cold as cold:

            def warmed(failure: DiskFailed | None) -> None:
                if failure is None:
                    self.when_warm(look, done, failed)
                else:
                    failed(KafkaStorageError(str(failure)))

            self.request_metrics.cold_reads += 1
            cold.file.warm(cold.position, cold.size, warmed)
        except Exception as error:  # a callback: no caller could answer the error
            failed(to_kafka_error(error, CorruptMessage))
        else:
            done(result)
