"""A module in the place of penstock.node, for `penstock start` without a node."""

from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

from penstock.config import BrokerConfig, ListenerAddress
from penstock.config.listeners import Address


class Running(NamedTuple):
    config: BrokerConfig
    cluster_id: str
    listeners: tuple[ListenerAddress, ...]
    metrics: Address | None


class FakeNode(ModuleType):
    """Takes the place of penstock.node, and keeps the configuration of the start."""

    class StartRefused(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("penstock.node")
        self.config: BrokerConfig | None = None
        self.problem: Exception | None = None
        self.code = 0

    def run_node(
        self,
        config: BrokerConfig,
        announce: Callable[[Running], None],
        cluster_id: str | None = None,
        watch: object = None,
    ) -> int:
        self.watch = watch
        self.cluster_id = cluster_id
        self.config = config
        if self.problem is not None:
            raise self.problem
        announce(Running(config, "the-cluster", config.listeners, config.metrics_listener))
        return self.code
