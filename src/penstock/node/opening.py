"""Resources of a node: addresses, the port for metrics, locked directories."""

import logging
from collections.abc import Callable, Sequence

from penstock.broker.broker import Broker
from penstock.broker.metadata.storage_format import LOCK_FILE, load_meta_properties
from penstock.broker.metrics.port import NodeMetricsPort
from penstock.broker.network.listener import ReservedAddress, tuning_of
from penstock.broker.network.node_tls import NodeTls
from penstock.config.broker import BrokerConfig, ConfigSource
from penstock.config.listeners import Address, ListenerAddress
from penstock.world import Disk, DiskFailed, TlsFailed, World

log = logging.getLogger("penstock.node")

# A new directory must have room for this much.
ROOM_FILE = "penstock-room.tmp"
FIRST_FILES_BYTES = 16 * 1024


class StartRefused(Exception):
    """The node cannot start; the text says why and what to do next."""


class NodeResources:
    """Addresses and locked directories: a node holds them until its end."""

    def __init__(self, world: World, config: BrokerConfig) -> None:
        self._world = world
        self._config = config
        self.tls = NodeTls(world, config)
        self.addresses: list[ReservedAddress] = []  # in the order of `listeners`
        self.disks: list[Disk] = []  # locked; the one with the metadata first
        self.metrics_port: NodeMetricsPort | None = None
        self.metrics_address: Address | None = None  # where that port listens
        self.without_metrics = ""  # why there are none

    def reserve_addresses(self) -> None:
        """Take the addresses of all listeners, before anything is written."""
        try:
            self.tls.load_now()
        except TlsFailed as problem:
            raise StartRefused(str(problem)) from problem
        for wanted in self._config.listeners:
            self.addresses.append(self._reserve(wanted))
            self.tls.opened(wanted.name, self.addresses[-1].listening)

    def _reserve(self, wanted: ListenerAddress) -> ReservedAddress:
        try:
            return ReservedAddress(
                self._world.network,
                wanted.host,
                wanted.port,
                tuning_of(self._config),
                self.tls.of(wanted.name),
            )
        except OSError as error:
            raise StartRefused(
                f"Cannot listen on {wanted.host or '*'}:{wanted.port}: {error.strerror or error}."
                " Stop what uses that address, if something does, or choose one of this machine:"
                f" {_listener_advice(self._config.listeners, wanted)}"
            ) from error

    def open_metrics_port(self, broker: Callable[[], Broker | None]) -> None:
        """Listen for operators. Without a free default address the node starts without the port."""
        wanted = self._config.metrics_listener
        if wanted is None:
            return
        port = NodeMetricsPort(self._world, broker)
        try:
            self.metrics_address = Address(*port.listen(wanted.host, wanted.port))
            self.metrics_port = port
        except OSError as error:
            what = f"listen on {wanted} for metrics: {error.strerror or error}"
            if self._config.source("metrics.listener") is not ConfigSource.DEFAULT:
                raise StartRefused(
                    f"Cannot {what}. Set metrics.listener to another address, or to nothing for no"
                    " metrics"
                ) from error
            self.without_metrics = f"cannot {what}; this node serves none"

    def lock_directories(self) -> dict[Disk, DiskFailed | None]:
        """Lock the directories, the one with the metadata first. Return those for partitions, each
        with its failure or None. A failed directory does not keep the others from serving."""
        config = self._config
        found: dict[Disk, DiskFailed | None] = {}
        for root in dict.fromkeys([config.metadata_log_dir, *config.log_dirs]):
            disk = self._world.disk(root)
            failed = None
            try:
                self._lock(disk)
            except DiskFailed as failure:
                if not self.disks:
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
                self.disks.append(disk)
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
        if load_meta_properties(disk) is None and self.disks:
            _check_room(disk)

    def release(self) -> None:
        """Close the addresses and unlock the directories."""
        for each in self.addresses:
            each.listening.close()
        if self.metrics_port is not None:
            self.metrics_port.close()
        for disk in self.disks:
            disk.unlock()
        self.disks.clear()


def _listener_advice(listeners: Sequence[ListenerAddress], wanted: ListenerAddress) -> str:
    """Return the option for an only listener; one of several is a part of its node's file."""
    if len(listeners) == 1:
        return f"--set listeners={wanted.name}://127.0.0.1:PORT"
    return f"give {wanted.name} another port in the line `listeners` of this node's file"


def _check_room(disk: Disk) -> None:
    """Raise DiskFailed if a new directory has no room for its first files. Such a directory goes
    offline, and the node starts with the others."""
    try:
        disk.put_now(ROOM_FILE, bytes(FIRST_FILES_BYTES))
    finally:
        disk.remove_now(ROOM_FILE)
