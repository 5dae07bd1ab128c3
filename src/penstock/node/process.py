"""A node as a process: runs until a signal, and announces its addresses."""

from collections.abc import Callable
from typing import NamedTuple

from penstock.broker.coordinators.preload import preload_coordinators
from penstock.broker.progress import TaskProgress
from penstock.config.broker import BrokerConfig
from penstock.config.listeners import Address, ListenerAddress
from penstock.node.node import PenstockNode


class StartedNode(NamedTuple):
    """A started node: its cluster and its addresses."""

    config: BrokerConfig
    cluster_id: str
    listeners: tuple[ListenerAddress, ...]  # with the ports that are really listened on
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
        uses_tls = node.resources.tls.is_used
        run_until_signal(world.loop, node.stop, node.reload_certificates if uses_tls else None)
    finally:
        world.close()
    return 1 if node.failure else 0
