"""The settings of nodes for tests, and the ports that they keep."""

import socket
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from penstock.config.local_nodes import LocalNode

SettingValue: TypeAlias = str | int | float | bool

# Differences from `penstock start`: a free port, no other port unless requested
# (`metrics.listener`), and files deleted soon.
OVERRIDES: Mapping[str, str] = MappingProxyType(
    {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "metrics.listener": "",
        "log.segment.delete.delay.ms": "1000",
    }
)
# Of several nodes: the loss of one is noticed in a fraction of Kafka's times.
SHORT_TIMEOUTS: Mapping[str, str] = MappingProxyType(
    {
        "broker.heartbeat.interval.ms": "100",
        "broker.session.timeout.ms": "1500",
        "controller.quorum.election.timeout.ms": "150",
        "controller.quorum.election.backoff.max.ms": "100",
        "controller.quorum.fetch.timeout.ms": "400",
        "controller.quorum.request.timeout.ms": "400",
        "replica.lag.time.max.ms": "3000",
    }
)
# Each of several nodes has its own.
OWN_KEYS = (
    "node.id",
    "broker.id",
    "process.roles",
    "listeners",
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
    "inter.broker.listener.name",
    "log.dirs",
    "log.dir",
    "metadata.log.dir",
)

# Linux lets a listener bind beside a bound socket that does not listen, and reserves the port
# meanwhile; connections are rejected. Elsewhere the port is only remembered.
HOLDS = sys.platform == "linux"


class HeldPort:
    """One port of an address, from its choice until `close`: a node keeps it while it is down, so
    that its clients find it again."""

    def __init__(self, host: str) -> None:
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, 0))
        self.port: int = self._socket.getsockname()[1]
        if not HOLDS:
            self._socket.close()

    def close(self) -> None:
        self._socket.close()


def texts_of(settings: Mapping[str, SettingValue]) -> dict[str, str]:
    """Return the settings as texts of Kafka's files: True is `true`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }


def node_settings(settings: Mapping[str, SettingValue], data: str) -> dict[str, str]:
    """Return the settings of a single node."""
    from penstock.config.single_node import SINGLE_NODE_SETTINGS

    return {**SINGLE_NODE_SETTINGS, **OVERRIDES, "log.dirs": data, **texts_of(settings)}


def member_settings(
    settings: Mapping[str, str], data: str, node: "LocalNode", nodes: "Sequence[LocalNode]"
) -> dict[str, str]:
    """Return the settings of one of several nodes. Their quorum is static: its controllers find
    each other on other ports too, when the data of an earlier cluster is used again."""
    from penstock.config.local_nodes import (
        controllers_of,
        membership_settings,
        replication_settings,
    )

    return {
        **node_settings(SHORT_TIMEOUTS, data),
        **replication_settings(sum(each.client is not None for each in nodes)),
        **settings,
        **membership_settings(node),
        "controller.quorum.voters": ",".join(str(each.voter) for each in controllers_of(nodes)),
    }


def check_keys(settings: Mapping[str, str], *, several: bool) -> None:
    """Raise ValueError for an unknown broker key, and for one that each of several nodes has of
    its own."""
    from penstock.config.check import unknown_broker_key
    from penstock.config.table import belongs_to_plugin, find_broker_key, removed_key

    for name in settings:
        known = find_broker_key(name) is not None or removed_key(name) is not None
        if not known and not belongs_to_plugin(name):
            raise ValueError(unknown_broker_key(name).message)
        if several and name in OWN_KEYS:
            raise ValueError(f"{name}: each of several nodes has its own, which the cluster sets")
