"""The broker as its background tasks see it."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.broker.background.throttled_log import ThrottledLog
from penstock.broker.metadata.auto_topics import AutoTopics
from penstock.broker.metadata.cluster_metadata import Metadata
from penstock.broker.partitions.integrity import Integrity
from penstock.broker.partitions.replicas import Replicas
from penstock.broker.settings import BrokerSettings
from penstock.broker.storage.log_dir import LogDirectory
from penstock.broker.transactions.txn_markers import MarkerWriter
from penstock.errors import KafkaError
from penstock.world import World

T = TypeVar("T")


class StartableCleaner(Protocol):
    """Compaction, which runs while the background tasks do."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def directory_filled(self, directory: LogDirectory) -> None: ...


class RequestMemory(Protocol):
    """Memory of frames that have not arrived whole (network/frames.py), or of requests that are
    read in slices (network/long_requests.py)."""

    def fallen(self) -> int: ...


class LaggingReplicas(Protocol):
    """The in-sync sets of the leaders on this node."""

    def look_for_laggards(self) -> None: ...


class NodeCertificates(Protocol):
    """The certificates of this node's listeners (network/node_tls.py)."""

    @property
    def is_used(self) -> bool: ...

    def warn_of_ends(self) -> None: ...


class CoordinatorsWithMarkers(Protocol):
    """The coordinators of this node, if a client has asked for one."""

    @property
    def markers(self) -> MarkerWriter: ...


class BackgroundBroker(Protocol):
    world: World
    settings: BrokerSettings
    metadata: Metadata
    replicas: Replicas
    integrity: Integrity
    rejections: ThrottledLog
    auto_topics: AutoTopics
    stopping: bool

    @property
    def tls(self) -> NodeCertificates: ...

    @property
    def cleaner(self) -> StartableCleaner: ...

    @property
    def isr_changes(self) -> LaggingReplicas: ...

    @property
    def frames(self) -> RequestMemory: ...

    @property
    def long_requests(self) -> RequestMemory: ...

    @property
    def known_coordinators(self) -> CoordinatorsWithMarkers | None: ...

    def when_warm(
        self, look: Callable[[], T], done: Callable[[T], None], failed: Callable[[KafkaError], None]
    ) -> None: ...
