"""Wires broker, controller and the world into a running node.

A start ends with a node that serves, or with StartRefused: its text has the cause and the next
step. A stop answers parked requests, writes everything to disk, and leaves the marker of a clean
stop.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from penstock.broker.background.background_tasks import BackgroundTasks
from penstock.broker.broker import Broker
from penstock.broker.coordinators.preload import preload_coordinators
from penstock.broker.metadata.quorum_controller import QuorumController, SnapshotPolicy
from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.broker.metadata.storage_format import (
    LOCK_FILE,
    MetaProperties,
    StorageError,
    controller_endpoint,
    load_meta_properties,
    open_directories_now,
)
from penstock.broker.metadata.stored_log import open_stored_log
from penstock.broker.metrics.port import NodeMetricsPort
from penstock.broker.network.listener import BrokerListener, ReservedAddress, tuning_of
from penstock.broker.partitions.partition import Partition
from penstock.broker.progress import TaskProgress
from penstock.broker.startup.startup import (
    NO_BROKER_EPOCH,
    load_partitions,
    read_clean_marker,
    write_clean_marker,
)
from penstock.broker.storage.log_dir import LogDirectory
from penstock.config.broker import BrokerConfig, ConfigSource
from penstock.config.listeners import Address
from penstock.config.listeners import ListenerAddress as ListenerConfig
from penstock.controller.config_rules import TableRules
from penstock.controller.controller import NewerMetadata
from penstock.controller.delta import MetadataCorrupt
from penstock.controller.settings import SUPPORTED_FEATURES, ControllerSettings
from penstock.errors import KafkaError
from penstock.log.missing_segments import LogCorrupted
from penstock.raft.errors import QuorumError
from penstock.raft.quorum import QuorumSettings
from penstock.raft.voters import QuorumVoter
from penstock.wire.messages import k62_broker_registration as k62
from penstock.wire.messages import k63_broker_heartbeat as k63
from penstock.wire.messages import k70_controller_registration as k70
from penstock.wire.structures import RegisteredFeature, RegisteredListener
from penstock.world import Disk, DiskFailed, Done, FileLost, World

log = logging.getLogger("penstock.node")

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
PROTOCOL_VERSION = 4  # of BrokerRegistration; the others below are 0-2
STOP_MS_MAX = 3_000  # for peers and disks; writing out comes on top
LAST_WORDS_MS = 200
DRAIN_STEP_MS = 5
FINISH_MS_MAX = 500
LOAD_SLICE_MS = 20  # how long logs are opened before others on the loop have a turn
LOADED_PER_SLICE_MAX = 64
# A new directory must have room for this much.
ROOM_FILE = "penstock-room.tmp"
FIRST_FILES_BYTES = 16 * 1024
_LOADED = object()


class StartRefused(Exception):
    """The node cannot start; the text says why and what to do next."""


def _see_to_room(disk: Disk) -> None:
    """Raise DiskFailed if a new directory has no room for its first files. Such a directory goes
    offline, and the node starts with the others."""
    try:
        disk.put_now(ROOM_FILE, bytes(FIRST_FILES_BYTES))
    finally:
        disk.remove_now(ROOM_FILE)


def _registered_features() -> list[RegisteredFeature]:
    return [
        RegisteredFeature(
            name=name, min_supported_version=each.low, max_supported_version=each.high
        )
        for name, each in SUPPORTED_FEATURES.items()
    ]


def _epoch_of_clean_stop(directories: Sequence[LogDirectory]) -> int:
    """Return the broker epoch of the last stop, or -1 unless that was clean in every one of
    log.dirs. A metadata directory apart from those has no marker."""
    if any(each.failed for each in directories):
        return NO_BROKER_EPOCH
    epochs = {read_clean_marker(each.disk) for each in directories}
    return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH


class PenstockNode:
    """One node. All methods are called on its loop, `start` before the loop runs."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        cluster_id: str | None = None,
        watch: Callable[[TaskProgress], None] | None = None,
    ) -> None:
        """Prepare a node; `watch` gets the progress of opening the logs."""
        self.world = world
        self._watch = watch
        self.config = config
        self.broker: Broker | None = None
        self.metadata: QuorumController | None = None
        self.cluster_id = cluster_id or ""  # of the data, once it is open
        self.failure: str | None = None
        self.metrics_address: Address | None = (
            None  # where the port for metrics listens, if it does
        )
        self._metrics_port: NodeMetricsPort | None = None
        self._without_metrics = ""  # why there are none
        self._disks: list[Disk] = []
        self._doors: list[ReservedAddress] = []
        self._duties: BackgroundTasks | None = None
        self._on_ready: Callable[[], None] = lambda: None
        self._on_stopped: Callable[[], None] = lambda: None
        self._loaded = False  # every log that can be opened is
        self._stopping = False
        self._ended = False
        self._broker_epoch = -1

    # -- starting

    def start(self, on_ready: Callable[[], None], on_stopped: Callable[[], None]) -> None:
        """Open everything, or raise StartRefused. `on_ready` follows on the loop."""
        self._on_ready = on_ready
        self._on_stopped = on_stopped
        try:
            self._open()
        except (StorageError, QuorumError, MetadataCorrupt, NewerMetadata, LogCorrupted) as error:
            self._let_go()
            raise StartRefused(str(error)) from error
        except DiskFailed as error:
            self._let_go()
            raise StartRefused(
                f"{error}. Check that the directory exists, is writable by this user and has room,"
                " or choose another one (--data DIR, or log.dirs)."
            ) from error
        except StartRefused:
            self._let_go()
            raise

    def _open(self) -> None:
        config = self.config
        for wanted in config.listeners:
            self._doors.append(self._open_door(wanted))
        self._open_metrics_port()
        data_disks = self._take_disks()
        sole = config.sole_voter
        properties = open_directories_now(
            self._disks,
            node_id=config.node_id,
            cluster_id=self.cluster_id or None,
            sole_voter=sole,
            endpoint=controller_endpoint(self.config, self.world.network),
            clock=self.world.clock,
            entropy=self.world.entropy,
        )
        ids = {disk: each.directory_id for disk, each in zip(self._disks, properties, strict=True)}
        self.cluster_id = properties[0].cluster_id
        metadata = self._make_metadata(properties[0])
        metadata.start()
        broker = Broker(self.world, config, MetadataOf(metadata, self.cluster_id))
        self.metadata, self.broker = metadata, broker
        if self._watch is not None:
            broker.recovery_progress.watch = self._watch
        metadata.on_image(broker.follow)
        waits = config.durability == "fsync"
        directories = [
            LogDirectory(
                disk,
                # One that cannot be read is known to others by its path: see missing_partitions.py.
                ids.get(disk) or self.world.entropy.uuid(),
                waits_for_sync=waits,
                holds_metadata=disk is self._disks[0],
                on_failed=self._directory_failed,
                touch=broker.touch,
                failed=failed,
            )
            for disk, failed in data_disks.items()
        ]
        broker.use_directories(directories, self._disks[0])
        self._listen(broker)
        self._register(broker, metadata)

    def _take_disks(self) -> dict[Disk, DiskFailed | None]:
        """Lock the directories, the one with the metadata first. Return those for partitions, each
        with its failure or None. A failed directory does not keep the others from serving."""
        config = self.config
        found: dict[Disk, DiskFailed | None] = {}
        for root in dict.fromkeys([config.metadata_log_dir, *config.log_dirs]):
            disk = self.world.disk(root)
            failed = None
            try:
                self._lock(disk)
            except DiskFailed as failure:
                if not self._disks:
                    raise
                failed = failure
                disk.unlock()
                log.error(
                    "log directory %s is offline: %s; its partitions are unavailable until it is"
                    " repaired and the node restarted",
                    disk.root,
                    failure,
                )
            else:
                self._disks.append(disk)
            if root in config.log_dirs:
                found[disk] = failed
        if all(found.values()):
            raise StartRefused(f"No log directory can be used: {next(iter(found.values()))}.")
        return found

    def _lock(self, disk: Disk) -> None:
        if not disk.lock(LOCK_FILE):
            raise StartRefused(
                f"Another node is using {disk.root} (it holds {LOCK_FILE}). Stop it, or give"
                " this node another directory (--data DIR, or log.dirs)."
            )
        disk.remove_leftovers_now()
        if load_meta_properties(disk) is None and self._disks:
            _see_to_room(disk)

    def _reachable(self, host: str) -> str:
        """Return the name under which others find this machine, for an empty host."""
        return host or self.world.network.host_name()

    def _make_metadata(self, properties: MetaProperties) -> QuorumController:
        config, world = self.config, self.world
        disk = self._disks[0]
        return QuorumController(
            disk,
            world.clock,
            world.timers,
            world.entropy,
            me=QuorumVoter(
                config.node_id,
                properties.directory_id,
                (controller_endpoint(config, world.network),),
            ),
            quorum=QuorumSettings(voter_ids=tuple(each.node_id for each in config.voters)),
            controller=ControllerSettings(
                cluster_id=properties.cluster_id,
                node_id=config.node_id,
                num_partitions=config.integer("num.partitions"),
                default_replication_factor=config.integer("default.replication.factor"),
                delete_topic_enable=config.boolean("delete.topic.enable"),
                min_insync_replicas=config.integer("min.insync.replicas"),
                unclean_leader_election_enable=config.boolean("unclean.leader.election.enable"),
            ),
            rules=TableRules(config),
            snapshots=SnapshotPolicy(
                bytes_between_max=config.integer("metadata.log.max.record.bytes.between.snapshots"),
                interval_ms=config.integer("metadata.log.max.snapshot.interval.ms"),
            ),
            open_log=open_stored_log(
                disk,
                METADATA_DIRECTORY,
                world.clock,
                config.integer("metadata.log.segment.bytes"),
            ),
            failed=self._metadata_failed,
        )

    def _listen(self, broker: Broker) -> None:
        controllers = self.config.controller_listener_names
        for wanted, door in zip(self.config.listeners, self._doors, strict=True):
            listener = BrokerListener(broker, wanted.name, controller=wanted.name in controllers)
            listener.open(door)
            broker.listeners.append(listener)

    def _open_door(self, wanted: ListenerConfig) -> ReservedAddress:
        """Take an address, before anything is written."""
        try:
            return ReservedAddress(
                self.world.network, wanted.host, wanted.port, tuning_of(self.config)
            )
        except OSError as error:
            raise StartRefused(
                f"Cannot listen on {wanted.host or '*'}:{wanted.port}: {error.strerror or error}."
                " Stop what uses that address, if something does, or choose one of this machine:"
                f" --set listeners={wanted.name}://127.0.0.1:PORT"
            ) from error

    def _open_metrics_port(self) -> None:
        wanted = self.config.metrics_listener
        if wanted is None:
            return
        port = NodeMetricsPort(self.world, lambda: self.broker)
        try:
            self.metrics_address = Address(*port.listen(wanted.host, wanted.port))
            self._metrics_port = port
        except OSError as error:
            what = f"listen on {wanted} for metrics: {error.strerror or error}"
            if self.config.source("metrics.listener") is not ConfigSource.DEFAULT:
                raise StartRefused(
                    f"Cannot {what}. Choose another address, --set metrics.listener=127.0.0.1:PORT,"
                    " or none: --set metrics.listener="
                ) from error
            self._without_metrics = f"cannot {what}; this node serves none"

    def advertised(self, listener: BrokerListener) -> tuple[str, int]:
        """Return host and port to which clients of this listener are sent."""
        for said in self.config.advertised_listeners:
            if said.name == listener.name:
                return self._reachable(said.host), said.port or listener.address[1]
        return self._reachable(""), listener.address[1]

    def _register(self, broker: Broker, metadata: QuorumController) -> None:
        config = self.config
        incarnation_id = self.world.entropy.uuid()
        endpoints = {
            listener: RegisteredListener(
                name=listener.name,
                host=self.advertised(listener)[0],
                port=self.advertised(listener)[1],
                security_protocol=SECURITY_PROTOCOLS[config.security_protocols[listener.name]],
            )
            for listener in broker.listeners
        }
        rack = config.get("broker.rack")
        request = k62.BrokerRegistrationRequest(
            broker_id=config.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=incarnation_id,
            listeners=[each for it, each in endpoints.items() if it.kind == "broker"],
            features=_registered_features(),
            rack=None if rack is None else str(rack),
            log_dirs=[each.directory_id for each in broker.replicas.directories if not each.failed],
            previous_broker_epoch=_epoch_of_clean_stop(broker.replicas.directories),
        )
        self._register_controller(broker, metadata, incarnation_id)
        metadata.submit(request, PROTOCOL_VERSION, self._registered)

    def _register_controller(
        self, broker: Broker, metadata: QuorumController, incarnation_id: bytes
    ) -> None:
        listeners = [each for each in broker.listeners if each.kind == "controller"]
        if not listeners:
            return
        request = k70.ControllerRegistrationRequest(
            controller_id=self.config.node_id,
            incarnation_id=incarnation_id,
            listeners=[
                RegisteredListener(
                    name=each.name,
                    host=self.advertised(each)[0],
                    port=self.advertised(each)[1],
                    security_protocol=0,
                )
                for each in listeners
            ],
            features=_registered_features(),
        )
        metadata.submit(request, 0, lambda _result: None)

    def _registered(self, result: k62.BrokerRegistrationResponse | KafkaError) -> None:
        """Load the partitions, once the registration is committed and the image is complete."""
        if isinstance(result, KafkaError) or result.error_code:
            self._give_up(f"the controller refused the registration of this node: {result}")
            return
        assert self.broker is not None and self.metadata is not None, "registered before opened"
        self._broker_epoch = result.broker_epoch
        self._load_on(load_partitions(self.broker))

    def _load_on(self, loading: Iterator[None]) -> None:
        """Open logs for one slice, then let the loop answer requests for metrics."""
        if self._stopping:
            return
        clock = self.world.clock
        until = clock.mono_ms() + LOAD_SLICE_MS
        try:
            for _ in range(LOADED_PER_SLICE_MAX):
                if next(loading, _LOADED) is _LOADED:
                    self._loaded = True
                    self._unfence()
                    return
                if clock.mono_ms() >= until:
                    break
        except DiskFailed as error:
            self._give_up(str(error))
            return
        self.world.timers.at(clock.mono_ms(), lambda: self._load_on(loading))

    def _unfence(self) -> None:
        assert self.metadata is not None, "loaded before opened"
        heartbeat = k63.BrokerHeartbeatRequest(
            broker_id=self.config.node_id,
            broker_epoch=self._broker_epoch,
            current_metadata_offset=self.metadata.image.offset,
        )
        self.metadata.submit(heartbeat, 2, self._unfenced)

    def _unfenced(self, result: Any) -> None:
        if isinstance(result, KafkaError):
            self._give_up(f"the controller refused the heartbeat of this node: {result}")
            return
        broker = self.broker
        assert broker is not None, "unfenced before opened"
        self._duties = BackgroundTasks(broker)
        broker.replicas.when_settled(self._ready)

    def _ready(self) -> None:
        assert self.broker is not None, "ready before opened"
        for listener in self.broker.listeners:
            listener.serve()
        self.broker.ready = True
        if self._without_metrics:
            log.warning("%s (--set metrics.listener=127.0.0.1:PORT)", self._without_metrics)
        self._on_ready()

    # -- failing

    def _metadata_failed(self, failure: DiskFailed) -> None:
        self._give_up(
            f"the metadata log failed: {failure}. Nothing that was acknowledged is lost. Repair the"
            " disk under it and start the node again."
        )

    def _directory_failed(self, directory: LogDirectory) -> None:
        assert self.broker is not None, "a directory fails while the broker runs"
        self.broker.cleaner.directory_failed(directory)
        self.broker.moves.directory_failed(directory)
        self.broker.clear_caches()
        if directory.holds_metadata:
            self._give_up_soon(
                f"{directory.disk.root} has failed, and the metadata log is in it. Nothing that was"
                " acknowledged is lost. Repair the disk under it and start the node again."
            )
        elif all(each.failed for each in self.broker.replicas.directories):
            self._give_up_soon("every log directory has failed. Repair the disks and start again.")

    def _give_up_soon(self, reason: str) -> None:
        """Give up after a moment, so that waiting requests get their answers."""

        def give_up() -> None:
            if not self._stopping:
                self._give_up(reason)

        self.world.timers.at(self.world.clock.mono_ms() + LAST_WORDS_MS, give_up)

    def _give_up(self, reason: str) -> None:
        self._stopping = True
        log.critical("%s", reason)
        self.failure = reason
        if self._duties is not None:
            self._duties.stop()
        if self.broker is not None:
            self.broker.stop_coordinators()
        self._end()

    # -- stopping

    def stop(self) -> None:
        """Stop accepting, finish what is parked, write everything out; then `on_stopped`."""
        if self._stopping:
            return
        self._stopping = True
        broker = self.broker
        if broker is None or not self._loaded:
            # No client was served yet, and the next start opens the logs like this one.
            if broker is not None:
                broker.stop_coordinators()
            self._end()
            return
        broker.stopping = True
        if self._duties is not None:
            self._duties.stop()
        broker.moves.stop()
        for listener in broker.listeners:
            listener.drain()
        broker.drain_coordinators()
        until = self.world.clock.mono_ms() + STOP_MS_MAX
        self._drain(broker, until)

    def kill(self) -> None:
        """Stop at once, as if the process had been killed, without a write or an answer."""
        self._stopping = True
        if self._duties is not None:
            self._duties.stop()
        if self.broker is not None:
            self.broker.stop_coordinators()
        self._let_go()
        self._on_stopped()

    def _drain(self, broker: Broker, until: float) -> None:
        """Wait, for a bounded time, until all requests are answered and no disk work runs."""
        if self._ended:
            return
        now = self.world.clock.mono_ms()
        unanswered = any(
            connection.replies or connection.peer.unsent_bytes
            for listener in broker.listeners
            for connection in listener.connections
        )
        busy = any(partition.log.busy for partition in broker.replicas.all()) or any(
            directory.storing for directory in broker.replicas.directories
        )
        busy = busy or bool(broker.recompression.waiting) or broker.moves.busy
        busy = busy or broker.replicas.creating
        if (unanswered or busy) and now < until:
            self.world.timers.at(now + DRAIN_STEP_MS, lambda: self._drain(broker, until))
            return
        broker.replicas.stop_creating()
        for listener in broker.listeners:
            for connection in listener.connections:
                connection.peer.finish()
        self._part(broker, min(until, now + FINISH_MS_MAX))

    def _part(self, broker: Broker, until: float) -> None:
        """Let peers read their answers for a moment; then close the logs."""
        if self._ended:
            return
        now = self.world.clock.mono_ms()
        if any(listener.connections for listener in broker.listeners) and now < until:
            self.world.timers.at(now + DRAIN_STEP_MS, lambda: self._part(broker, until))
            return
        for listener in broker.listeners:
            listener.close_all()
        broker.stop_coordinators()
        self._close_logs(broker)

    def _close_logs(self, broker: Broker) -> None:
        """Close all directories in parallel; the slowest one ends the stop."""
        closing = {each: None for each in broker.replicas.directories if not each.failed}

        def closed(directory: LogDirectory, failure: DiskFailed | None) -> None:
            if failure is not None:
                self._stopped_badly(directory.disk, failure)
            closing.pop(directory)
            if not closing:
                self._end()

        for directory in list(closing):
            self._close_directory(broker, directory, partial(closed, directory))
        if not closing:
            self._end()

    def _close_directory(self, broker: Broker, directory: LogDirectory, done: Done) -> None:
        """Close the logs, sync the disk, then write the marker of a clean stop. A log that lost its
        files goes on record as offline, and the others are closed cleanly."""
        disk = directory.disk
        # A disk that hangs may yet bring others here. The next start knows which ones are damaged.
        partitions = [each for each in directory.partitions if each.log.lost is None]
        losses: list[tuple[Partition, FileLost]] = []

        def close(partition: Partition) -> None:
            try:
                partition.log.close()
            except FileLost as failure:
                losses.append((partition, failure))

        def closed(failure: DiskFailed | None) -> None:
            for partition, loss in losses:
                broker.integrity.lost_at_stop(directory, partition, loss)
            if failure is not None and losses:
                # Without a clean stop the next start finds the losses here only.
                with suppress(DiskFailed):
                    broker.replicas.placements.store_now()
            if failure is None:
                disk.offload_all([disk.sync_everything_now], synced)
            else:
                done(failure)

        def synced(failure: DiskFailed | None) -> None:
            try:
                if failure is None:
                    broker.replicas.checkpoints.all_now(directory)
                    still_here = [each for each in partitions if each in directory.partitions]
                    whole = [each for each in still_here if each.log.lost is None]
                    write_clean_marker(disk, self._broker_epoch, whole)
                done(failure)
            except DiskFailed as refused:
                done(refused)

        # No request uses these logs any more.
        disk.offload_all([partial(close, each) for each in partitions], closed)

    def _stopped_badly(self, disk: Disk, failure: DiskFailed) -> None:
        """Note that the files of a clean stop cannot be written: the next start recovers the
        logs."""
        try:
            disk.sync_everything_now()
            kept = "All that was written is synced: the next start recovers the logs."
        except DiskFailed as worse:
            kept = f"What was written last may not be durable: {worse}."
        self.failure = f"{disk.root} was not stopped cleanly: {failure}. {kept}"
        log.error("%s", self.failure)

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        if self.metadata is not None:
            try:
                self.metadata.stop()
            except DiskFailed as failure:
                if self.failure is None:  # else the same reason is known
                    self._stopped_badly(self._disks[0], failure)
            self.metadata = None
        if self.broker is not None:
            for listener in self.broker.listeners:
                listener.close_all()
        self._let_go()
        self._on_stopped()

    def _let_go(self) -> None:
        for door in self._doors:
            door.listening.close()
        if self._metrics_port is not None:
            self._metrics_port.close()
        for disk in self._disks:
            disk.unlock()
        self._disks.clear()


class MetadataOf:
    """The controller of this node, as the broker sees it."""

    def __init__(self, quorum: QuorumController, cluster_id: str) -> None:
        self._quorum = quorum
        self.cluster_id = cluster_id
        self.submit = quorum.submit
        self.describe = quorum.describe

    @property
    def image(self) -> Any:
        return self._quorum.image


class StartedNode(NamedTuple):
    """A started node: its cluster and its addresses."""

    config: BrokerConfig
    cluster_id: str
    listeners: tuple[ListenerConfig, ...]  # with the ports that are really listened on
    metrics: Address | None


def run_node(
    config: BrokerConfig,
    announce: Callable[[StartedNode], None],
    cluster_id: str | None = None,
    watch: Callable[[TaskProgress], None] | None = None,
) -> int:
    """Run a node in this process until SIGTERM or SIGINT; return the exit code.

    Raise StartRefused if the node cannot start. `cluster_id` is the cluster that its data must
    belong to. `watch` gets the progress while logs are opened.
    """
    from penstock.real.process import prepare, run_until_signal
    from penstock.real.world import RealWorld

    prepare()
    world = RealWorld(group_access=config.group_access)
    node = PenstockNode(world, config, cluster_id, watch)

    def ready() -> None:
        assert node.broker is not None, "ready before opened"
        announce(
            StartedNode(
                config,
                node.cluster_id,
                tuple(
                    wanted._replace(port=each.address[1])
                    for wanted, each in zip(config.listeners, node.broker.listeners, strict=True)
                ),
                node.metrics_address,
            )
        )
        preload_coordinators(world)

    try:
        node.start(ready, world.loop.stop)
        run_until_signal(world.loop, node.stop)
    finally:
        world.close()
    return 1 if node.failure else 0
