"""The requests with which a node makes itself known to the controller."""

from collections.abc import Callable, Sequence

from penstock.broker.broker import Broker
from penstock.broker.network.listener import BrokerListener
from penstock.broker.startup.startup import NO_BROKER_EPOCH, read_clean_marker
from penstock.broker.storage.log_dir import LogDirectory
from penstock.config.broker import BrokerConfig
from penstock.controller.settings import SUPPORTED_FEATURES
from penstock.wire.messages import k62_broker_registration as k62
from penstock.wire.messages import k70_controller_registration as k70
from penstock.wire.structures import RegisteredFeature, RegisteredListener
from penstock.world import Network

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
BROKER_HEARTBEAT_VERSION = 2
BROKER_REGISTRATION_VERSION = 4
CONTROLLER_REGISTRATION_VERSION = 0


class NodeRegistration:
    """The requests of one life of a node; its incarnation is the same in all of them, unless the
    broker withdraws its claim of a clean stop."""

    def __init__(
        self,
        config: BrokerConfig,
        network: Network,
        broker: Broker,
        cluster_id: str,
        new_incarnation: Callable[[], bytes],
    ) -> None:
        self._config = config
        self._network = network
        self._broker = broker
        self._cluster_id = cluster_id
        self._new_incarnation = new_incarnation
        self._incarnation_id = self._broker_incarnation_id = new_incarnation()
        broker.incarnation_ids = (self._incarnation_id,)
        self._previous_epoch: int | None = None  # read once: opened logs have no marker

    @property
    def node_id(self) -> int:
        return self._config.node_id

    def offline_directories(self) -> list[bytes]:
        """Return the ids of directories that have failed since the start."""
        directories = self._broker.replicas.directories
        return [each.directory_id for each in directories if each.failed]

    def broker_request(self) -> k62.BrokerRegistrationRequest:
        """Return the registration of the broker, with the epoch of its last clean stop."""
        rack = self._config.get("broker.rack")
        directories = self._broker.replicas.directories
        if self._previous_epoch is None:
            self._previous_epoch = _epoch_of_clean_stop(directories)
        return k62.BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._broker_incarnation_id,
            listeners=self._listeners("broker"),
            features=_registered_features(),
            rack=None if rack is None else str(rack),
            log_dirs=[each.directory_id for each in directories if not each.failed],
            previous_broker_epoch=self._previous_epoch,
        )

    def withdraw_clean_stop(self) -> bool:
        """Let the next registration be that of a new incarnation after a crash. Return whether the
        last one claimed a clean stop."""
        if self._previous_epoch in (None, NO_BROKER_EPOCH):
            return False
        self._previous_epoch = NO_BROKER_EPOCH
        self._broker_incarnation_id = self._new_incarnation()
        self._broker.incarnation_ids += (self._broker_incarnation_id,)
        return True

    def controller_request(self) -> k70.ControllerRegistrationRequest | None:
        """Return the registration of the controller, None without a controller listener."""
        listeners = self._listeners("controller")
        if not listeners:
            return None
        return k70.ControllerRegistrationRequest(
            controller_id=self._config.node_id,
            incarnation_id=self._incarnation_id,
            listeners=listeners,
            features=_registered_features(),
        )

    def _listeners(self, kind: str) -> list[RegisteredListener]:
        protocols = self._config.security_protocols
        return [
            RegisteredListener(
                name=each.name,
                host=host,
                port=port,
                security_protocol=SECURITY_PROTOCOLS[protocols[each.name]],
            )
            for each in self._broker.listeners
            if each.kind == kind
            for host, port in [advertised_address(self._config, self._network, each)]
        ]


def advertised_address(
    config: BrokerConfig, network: Network, listener: BrokerListener
) -> tuple[str, int]:
    """Return host and port to which clients of this listener are sent."""
    for configured in config.advertised_listeners:
        if configured.name == listener.name:
            host = configured.host or network.host_name()
            return host, configured.port or listener.address[1]
    return network.host_name(), listener.address[1]


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
