"""The node of a run, or its three nodes: started, killed and started again."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Protocol

from bench import servers
from bench.cluster import NODES, SHORT, ClusterNode, ThreeNodes, three_nodes
from penstock.config.local_nodes import replication_settings

REPLICATED: Mapping[str, str] = {**SHORT, **replication_settings(len(NODES))}


class Nodes(Protocol):
    """What a run knows of its nodes."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def directories(self) -> list[Path]: ...

    def start(self) -> None: ...

    def kill_one(self, chance: Random) -> None:
        """Kill a node and start it again. Raise ServerFailed if a node has died by itself."""
        ...

    def end(self) -> None: ...


class SoleNode:
    """One node, which answers again before a run goes on."""

    def __init__(self, folder: Path, durabilities: Random) -> None:
        self._data = folder / "node"
        self._ports = servers.Ports.free()
        self._durabilities = durabilities
        self._server: servers.Server | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports.client}"

    @property
    def directories(self) -> list[Path]:
        return [self._data]

    def start(self) -> None:
        durability = self._durabilities.choice(["page-cache", "fsync"])
        changes = {"log.durability": durability}
        self._server = servers.start("penstock", self._data, ports=self._ports, changes=changes)

    def kill_one(self, _chance: Random) -> None:
        server = self._server
        assert server is not None, "a node runs before it is killed"
        if server.process.poll() is not None:
            raise servers.ServerFailed(f"the node died alone:\n{server.log_tail()}")
        server.kill()
        self.start()

    def end(self) -> None:
        if self._server is not None:
            self._server.kill()


class SeveralNodes:
    """Three nodes with three replicas of everything; a killed one returns while the run goes on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._cluster: ThreeNodes | None = None

    @property
    def _nodes(self) -> list[ClusterNode]:
        assert self._cluster is not None, "the nodes have started"
        return list(self._cluster.nodes)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.ports.client}" for node in self._nodes)

    @property
    def directories(self) -> list[Path]:
        return [node.data for node in self._nodes]

    def start(self) -> None:
        self._cluster = self._stack.enter_context(three_nodes("penstock", self._folder, REPLICATED))

    def kill_one(self, chance: Random) -> None:
        for node in self._nodes:
            server = node.server
            if server is not None and server.process.poll() is not None:
                raise servers.ServerFailed(f"{node.data.name} died alone:\n{server.log_tail()}")
        victim = chance.choice(self._nodes)
        victim.kill()
        victim.launch()

    def end(self) -> None:
        self._stack.close()
