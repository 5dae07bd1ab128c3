"""The nodes of a cluster for tests: their settings, their ports, and what starts and ends them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.testing.node_settings import HeldPort, member_settings, node_settings

if TYPE_CHECKING:
    from penstock.config.broker import BrokerConfig
    from penstock.config.listeners import Address, ListenerAddress
    from penstock.config.local_nodes import LocalNode
    from penstock.testing.cluster_files import ClusterFiles
    from penstock.testing.intercepting.taps import Taps

HOST = "127.0.0.1"


class ClusterNode(Protocol):
    """One node, in this process or in another one."""

    @property
    def running(self) -> bool: ...
    @property
    def paused(self) -> bool: ...
    @property
    def addresses(self) -> dict[str, tuple[str, int]]: ...
    @property
    def metrics_address(self) -> str | None: ...
    def begin_start(self) -> None: ...
    def await_start(self) -> None: ...
    def begin_stop(self) -> None: ...
    def await_end(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def check(self) -> None: ...


class NodeCounts:
    """How many nodes a cluster has. Without `controllers` each broker is a controller too; with
    them, they are nodes of their own, after the brokers."""

    def __init__(self, brokers: int, controllers: int | None) -> None:
        if brokers < 1:
            raise ValueError(f"brokers={brokers}: a cluster has at least one")
        if controllers is not None and controllers < 1:
            raise ValueError(
                f"controllers={controllers}: at least one; without it, brokers are controllers too"
            )
        self.brokers = brokers
        self.controllers = controllers

    @property
    def several(self) -> bool:
        return self.brokers > 1 or self.controllers is not None


class ClusterNodes:
    """Makes nodes and holds their ports; nodes start and end together."""

    def __init__(self, files: "ClusterFiles", taps: "Taps | None") -> None:
        """Make none yet. With `taps` they are threads of this process, otherwise processes."""
        self._files = files
        self._taps = taps
        self._ports: list[HeldPort] = []
        self.by_id: dict[int, ClusterNode] = {}
        self.members: dict[int, LocalNode] = {}  # of several nodes

    # -- making them

    def make_one(self, settings: Mapping[str, str]) -> None:
        """Make a node that is the whole cluster."""
        from penstock.config.broker import BrokerConfig

        texts = node_settings(settings, self._files.root)
        config = BrokerConfig.of(texts)
        texts["listeners"] = ",".join(str(self._with_port(config, x)) for x in config.listeners)
        self.by_id[config.node_id] = self._make_node(config.node_id, texts)

    def make_several(self, settings: Mapping[str, str], counts: NodeCounts) -> None:
        """Make the nodes of a cluster, and format their directories if these are new."""
        from penstock.config.local_nodes import LocalNode
        from penstock.formatting import new_cluster_id

        apart = counts.controllers or 0
        for node_id in range(1, counts.brokers + apart + 1):
            client = self._address() if node_id <= counts.brokers else None
            votes = counts.controllers is None or node_id > counts.brokers
            controller = self._address() if votes else None
            self.members[node_id] = LocalNode(node_id, client, controller)
        members = [*self.members.values()]
        is_new = not any(os.path.exists(self._directory(each)) for each in members)
        cluster_id = new_cluster_id() if is_new else None
        for each in members:
            texts = member_settings(settings, self._directory(each), each, members)
            self.by_id[each.node_id] = self._make_node(each.node_id, texts, cluster_id)

    def _directory(self, member: "LocalNode") -> str:
        return os.path.join(self._files.root, f"node-{member.node_id}")

    def _make_node(
        self, number: int, settings: dict[str, str], cluster_id: str | None = None
    ) -> ClusterNode:
        if self._taps is None:
            from penstock.testing.process_node import ProcessNode

            log = Path(self._files.scratch) / f"node-{number}.log"
            if cluster_id is not None:
                from penstock.config.broker import BrokerConfig
                from penstock.formatting import format_directories

                format_directories(BrokerConfig.of(settings), cluster_id)
            return ProcessNode(settings, log)
        from penstock.testing.embedded import EmbeddedNode

        return EmbeddedNode(
            settings,
            self._taps,
            memory=self._files.in_memory,
            one_of_several=bool(self.members),
            format_as=cluster_id,
        )

    def _with_port(self, config: "BrokerConfig", listener: "ListenerAddress") -> "ListenerAddress":
        """Return the listener with a fixed port, if any free one was requested."""
        if listener.port or listener.name in config.controller_listener_names:
            return listener
        return listener._replace(port=self._hold(listener.host))

    def _address(self) -> "Address":
        from penstock.config.listeners import Address

        return Address(HOST, self._hold(HOST))

    def _hold(self, host: str) -> int:
        held = HeldPort(host)
        self._ports.append(held)
        return held.port

    def release(self) -> None:
        """Forget the nodes, and release their ports."""
        self.by_id.clear()
        self.members.clear()
        for port in self._ports:
            port.close()
        self._ports.clear()

    # -- the life of some of them

    def start(self, nodes: Sequence[ClusterNode]) -> None:
        """Start nodes together: several become ready only when most controllers run."""
        for each in nodes:
            each.begin_start()
        try:
            for each in nodes:
                each.await_start()
        except BaseException:
            for each in nodes:
                _kill_quietly(each)
            raise

    def stop(self, nodes: Iterable[ClusterNode]) -> None:
        """Stop nodes together; raise the first failure when all have ended."""
        ending = list(nodes)
        for each in ending:
            each.begin_stop()
        _end_all([each.await_end for each in ending])

    def kill(self, nodes: Iterable[ClusterNode]) -> None:
        """Kill nodes; raise the first failure of one that had ended by itself."""
        _end_all([each.kill for each in nodes])


def _end_all(ends: Sequence[Callable[[], None]]) -> None:
    """Make all calls, and raise the first failure afterwards."""
    failure: BaseException | None = None
    for end in ends:
        try:
            end()
        except BaseException as error:
            failure = failure or error
    if failure is not None:
        raise failure


def _kill_quietly(node: ClusterNode) -> None:
    """Kill a node whose failure does not matter: another one is reported."""
    try:
        node.kill()
    except Exception:
        return
