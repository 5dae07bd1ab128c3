"""A node's phases: open, register, load, serve, stop.

A start ends with a node that serves, or with StartRefused: its text has the cause and the next
step. A stop answers parked requests, writes everything to disk, and leaves the marker of a clean
stop.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from penstock.broker.access import NO_SUPER_USER
from penstock.broker.background.background_tasks import BackgroundTasks
from penstock.broker.broker import Broker
from penstock.broker.handlers import CONTROLLER
from penstock.broker.links.broker_links import BrokerLinks
from penstock.broker.links.link import LinkSettings
from penstock.broker.links.links import BETWEEN_BROKERS, LinkPurpose, Links
from penstock.broker.links.quorum_transport import LinkTransport
from penstock.broker.metadata.quorum_controller import QuorumController
from penstock.broker.metadata.storage_format import (
    StorageError,
    controller_endpoint,
    open_directories_now,
)
from penstock.broker.network.listener import BrokerListener
from penstock.broker.progress import TaskProgress
from penstock.broker.startup.startup import load_partitions
from penstock.broker.storage.log_dir import LogDirectory
from penstock.config.broker import BrokerConfig
from penstock.config.listeners import SASL_PROTOCOLS, Address
from penstock.controller.controller import NewerMetadata
from penstock.controller.delta import MetadataCorrupt
from penstock.log.missing_segments import LogCorrupted
from penstock.node.broker_lifecycle import BrokerLifecycle, LifecycleSettings
from penstock.node.cluster_metadata import ClusterMetadata
from penstock.node.controller_contact import ControllerContact
from penstock.node.metadata import make_metadata
from penstock.node.opening import NodeResources, StartRefused
from penstock.node.registration import NodeRegistration, advertised_address
from penstock.node.shutdown import NodeShutdown, note_unclean_stop
from penstock.raft.errors import QuorumError
from penstock.world import Disk, DiskFailed, TlsSettings, World

log = logging.getLogger("penstock.node")


LAST_WORDS_MS = 200
HAND_OVER_MS_MAX = 1_000  # until another controller leads the quorum
HAND_OVER_STEP_MS = 5
LOAD_SLICE_MS = 20  # how long logs are opened before others on the loop have a turn
LOADED_PER_SLICE_MAX = 64
_LOADED = object()


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
        self.resources = NodeResources(world, config)
        self._background: BackgroundTasks | None = None
        self._shutdown: NodeShutdown | None = None
        self._on_ready: Callable[[], None] = lambda: None
        self._on_stopped: Callable[[], None] = lambda: None
        self._loaded = False  # every log that can be opened is
        self._awaits_registration = False  # a second one, after the logs were opened
        self._stopping = False
        self._ended = False
        self._broker_epoch = -1
        self._links = _make_links(world, config, self._find_link_tls)
        self._cluster: ClusterMetadata | None = None
        self._contact: ControllerContact | None = None
        self._requests: NodeRegistration | None = None

    def _find_link_tls(self, purpose: LinkPurpose) -> TlsSettings | None:
        config = self.config
        if purpose in BETWEEN_BROKERS:
            return self.resources.tls.of(config.inter_broker_listener_name)
        names = config.controller_listener_names
        return self.resources.tls.of(names[0]) if names else None

    @property
    def metrics_address(self) -> Address | None:
        """Return the address of the port for metrics, None without one."""
        return self.resources.metrics_address

    def reload_certificates(self) -> None:
        """Read the key stores and trust stores again; a bad one changes nothing."""
        if self.broker is not None:
            self.broker.tls.follow(self.broker.config)

    # -- starting

    def start(self, on_ready: Callable[[], None], on_stopped: Callable[[], None]) -> None:
        """Open everything, or raise StartRefused. `on_ready` follows on the loop."""
        self._on_ready = on_ready
        self._on_stopped = on_stopped
        try:
            self._open()
        except (StorageError, QuorumError, MetadataCorrupt, NewerMetadata, LogCorrupted) as error:
            self.resources.release()
            raise StartRefused(str(error)) from error
        except DiskFailed as error:
            self.resources.release()
            raise StartRefused(
                f"{error}. Check that the directory exists, is writable by this user and has room."
                " Only a node without data may use another one (--data DIR, or log.dirs)."
            ) from error
        except StartRefused:
            self.resources.release()
            raise

    def _open(self) -> None:
        config, world = self.config, self.world
        self.resources.reserve_addresses()
        self.resources.open_metrics_port(lambda: self.broker)
        data_disks = self.resources.lock_directories()
        disks = self.resources.disks
        properties = open_directories_now(
            disks,
            node_id=config.node_id,
            cluster_id=self.cluster_id or None,
            sole_voter=config.sole_voter,
            endpoint=controller_endpoint(config, world.network),
            clock=world.clock,
            entropy=world.entropy,
            is_controller=config.is_controller,
            static_voters=bool(config.voters),
        )
        ids = {disk: each.directory_id for disk, each in zip(disks, properties, strict=True)}
        self.cluster_id = properties[0].cluster_id
        metadata = make_metadata(
            world,
            config,
            disks[0],
            properties[0],
            LinkTransport(self._links, world.timers, config.bootstrap_controllers),
            self._metadata_failed,
            self._give_up,
        )
        self._cluster = cluster = ClusterMetadata(
            world,
            metadata,
            self._links,
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            timeout_ms=config.integer("controller.socket.timeout.ms"),
        )
        metadata.start()
        links = BrokerLinks(self._links, world.timers, partial(_address_of, cluster, config))
        broker = Broker(world, config, cluster, links, self.resources.tls)
        self.metadata, self.broker = metadata, broker
        if self._watch is not None:
            broker.recovery_progress.watch = self._watch
        if metadata.is_active and broker.access.admits_nobody:
            raise StartRefused(NO_SUPER_USER)
        metadata.on_image(broker.follow)
        metadata.on_image(links.follow)
        broker.use_directories(self._log_directories(broker, data_disks, ids), disks[0])
        self._listen(broker)
        self._make_contact(broker, cluster)

    def _log_directories(
        self, broker: Broker, disks: dict[Disk, DiskFailed | None], ids: dict[Disk, bytes]
    ) -> list[LogDirectory]:
        waits = self.config.durability == "fsync"
        return [
            LogDirectory(
                disk,
                # One that cannot be read is known to others by its path: see missing_partitions.py.
                ids.get(disk) or self.world.entropy.uuid(),
                waits_for_sync=waits,
                holds_metadata=disk is self.resources.disks[0],
                on_failed=self._directory_failed,
                touch=broker.touch,
                failed=failed,
            )
            for disk, failed in disks.items()
        ]

    def _listen(self, broker: Broker) -> None:
        controllers = self.config.controller_listener_names
        for wanted, address in zip(self.config.listeners, self.resources.addresses, strict=True):
            listener = BrokerListener(broker, wanted.name, controller=wanted.name in controllers)
            listener.open(address)
            broker.listeners.append(listener)
            if listener.kind == CONTROLLER:
                listener.serve()  # the quorum needs it before any broker can start

    def advertised(self, listener: BrokerListener) -> tuple[str, int]:
        """Return host and port to which clients of this listener are sent."""
        return advertised_address(self.config, self.world.network, listener)

    def _make_contact(self, broker: Broker, cluster: ClusterMetadata) -> None:
        config = self.config
        self._requests = requests = NodeRegistration(
            config, self.world.network, broker, self.cluster_id, self.world.entropy.uuid
        )
        lifecycle = BrokerLifecycle(
            LifecycleSettings(
                heartbeat_interval_ms=config.integer("broker.heartbeat.interval.ms"),
                registration_timeout_ms=config.integer("initial.broker.registration.timeout.ms"),
                controllers=config.controllers_text,
            )
        )
        self._contact = contact = ControllerContact(
            self.world,
            cluster,
            requests,
            lifecycle,
            self,
            heartbeat_timeout_ms=config.integer("broker.session.timeout.ms") // 2,
        )
        if config.is_broker:
            contact.start_broker()
        else:
            contact.register_controller()
            cluster.on_leader(self._found_leader)
            # A stored leader is known before any listener is.
            self.world.timers.soon(self._found_leader)

    def _found_leader(self) -> None:
        """Be ready as a controller once the quorum has a leader."""
        if self.broker is None or self.metadata is None or self._stopping:
            return
        if not self.broker.ready and self.metadata.active_controller[0] >= 0:
            self._ready()

    # -- the contact with the controller (controller_contact.ContactedNode)

    def registered(self, broker_epoch: int) -> None:
        """Open the logs: the image has the registration."""
        assert self.broker is not None, "registered before opened"
        is_first = self._broker_epoch < 0
        self._broker_epoch = broker_epoch
        if is_first:
            self._load_on(load_partitions(self.broker))
        elif self._awaits_registration:
            self._awaits_registration = False
            self._report_losses()

    def _report_losses(self) -> None:
        """Tell the controller which replicas are lost, before this broker asks to be unfenced. A
        clean stop is no proof that these have all records, so the broker claims none."""
        assert self.broker is not None and self._contact is not None, "loaded before opened"
        assert self._requests is not None, "a broker has registered"
        reports = self.broker.directory_reports
        if reports.lost_replicas() and self._requests.withdraw_clean_stop():
            log.warning(
                "replicas of this broker are lost although it has stopped cleanly: it registers"
                " again as after a crash, once its present session is over"
            )
            self._awaits_registration = True
            self._contact.register_again()
        else:
            reports.report_offline(self._contact.opened)

    def unfenced(self) -> None:
        """Serve clients, if this is the first time."""
        broker = self.broker
        assert broker is not None, "unfenced before opened"
        if self._background is None and not self._stopping:
            self._background = BackgroundTasks(broker)
            # The controller of a second process under this id is rejected with its broker.
            assert self._contact is not None, "a broker has registered"
            self._contact.register_controller()
            broker.replicas.when_settled(self._ready)

    def left(self) -> None:
        """Drain the connections and close the logs: the controller has moved the leaderships."""
        broker = self.broker
        assert broker is not None, "a broker leaves"
        broker.stopping = True
        broker.followers.stop()
        if self._background is not None:
            self._background.stop()
        self._shutdown = NodeShutdown(self.world, broker, self._broker_epoch, self._shut_down)
        self._shutdown.begin()

    def rejected(self, reason: str) -> None:
        """End the node, which cannot take part in the cluster."""
        self._give_up(reason)

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
                    self._report_losses()
                    return
                if clock.mono_ms() >= until:
                    break
        except DiskFailed as error:
            self._give_up(str(error))
            return
        self.world.timers.at(clock.mono_ms(), lambda: self._load_on(loading))

    def _ready(self) -> None:
        assert self.broker is not None, "ready before opened"
        if self.broker.access.admits_nobody:
            self._give_up(NO_SUPER_USER)
            return
        self.broker.access.open()
        for listener in self.broker.listeners:
            if listener.kind != CONTROLLER:
                listener.serve()
        self.broker.ready = True
        if self.resources.without_metrics:
            log.warning(
                "%s (--set metrics.listener=127.0.0.1:PORT)", self.resources.without_metrics
            )
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
        if self._contact is not None:
            self.world.timers.soon(self._contact.report)
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
        if self._background is not None:
            self._background.stop()
        if self.broker is not None:
            self.broker.stop_coordinators()
            self.broker.followers.stop()
        self._end()

    # -- stopping

    def stop(self) -> None:
        """Stop accepting, finish what is parked, write everything out; then `on_stopped`."""
        if self._stopping:
            return
        self._stopping = True
        if self.broker is None or self._contact is None or not self._loaded:
            # No client was served yet, and the next start opens the logs like this one.
            if self.broker is not None:
                self.broker.stop_coordinators()
                self.broker.followers.stop()
            self._hand_over()
            return
        self._contact.leave()

    def _shut_down(self, failure: str | None) -> None:
        self.failure = failure or self.failure
        self._hand_over()

    def _hand_over(self) -> None:
        """Resign from the quorum, and wait a moment until another controller leads."""
        if self._contact is not None:
            self._contact.stop()
        if self.metadata is None:
            self._end()
            return
        self.metadata.shut_down()
        self._wait_for_successor(self.world.clock.mono_ms() + HAND_OVER_MS_MAX)

    def _wait_for_successor(self, until_ms: float) -> None:
        now_ms = self.world.clock.mono_ms()
        if self.metadata is None or self.metadata.may_stop or now_ms >= until_ms:
            self._end()
            return
        again_ms = now_ms + HAND_OVER_STEP_MS
        self.world.timers.at(again_ms, lambda: self._wait_for_successor(until_ms))

    def kill(self) -> None:
        """Stop at once, as if the process had been killed, without a write or an answer."""
        self._stopping = True
        if self._background is not None:
            self._background.stop()
        if self.broker is not None:
            self.broker.stop_coordinators()
            self.broker.followers.stop()
        if self.metadata is not None:
            self.metadata.kill()
        self._leave_links()
        self.resources.release()
        self._on_stopped()

    def _leave_links(self) -> None:
        if self._contact is not None:
            self._contact.stop()
        if self._cluster is not None:
            self._cluster.stop()
        self._links.close()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        if self._shutdown is not None:
            self._shutdown.cancel()
        self._leave_links()
        if self.metadata is not None:
            try:
                self.metadata.stop()
            except DiskFailed as failure:
                if self.failure is None:  # else the same reason is known
                    self.failure = note_unclean_stop(self.resources.disks[0], failure)
            self.metadata = None
        if self.broker is not None:
            for listener in self.broker.listeners:
                listener.close_all()
        self.resources.release()
        self._on_stopped()


def _make_links(
    world: World, config: BrokerConfig, find_tls: Callable[[LinkPurpose], TlsSettings | None]
) -> Links:
    to_controllers = to_brokers = LinkSettings(f"node-{config.node_id}")
    if any(each in SASL_PROTOCOLS for each in config.link_protocols):
        from penstock.config.sasl import controller_mechanism, inter_broker_mechanism

        to_controllers = replace(to_controllers, mechanism=controller_mechanism(config))
        to_brokers = replace(to_brokers, mechanism=inter_broker_mechanism(config))
    return Links(world, to_controllers, to_brokers, find_tls)


def _address_of(
    cluster: ClusterMetadata, config: BrokerConfig, node_id: int
) -> tuple[str, int] | None:
    """Return the address of a broker for other brokers, None for one that is away."""
    broker = cluster.image.brokers.get(node_id)
    if broker is None or broker.fenced:
        return None
    endpoint = broker.endpoint(config.inter_broker_listener_name)
    return None if endpoint is None else (endpoint.host, endpoint.port)
