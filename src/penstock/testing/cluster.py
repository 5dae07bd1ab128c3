"""A cluster for tests: real nodes in this process, or each in a separate process.

A closed cluster leaves nothing behind, nor does one whose test process ends otherwise. The next
cluster with files removes those of a killed one.
"""

import atexit
import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Protocol, Self, TypeAlias, TypeVar, overload

from penstock.testing.failures import NodeFailed, NotPossible

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.config.broker import BrokerConfig
    from penstock.config.listeners import ListenerAddress
    from penstock.testing.embedded import EmbeddedNode
    from penstock.testing.intercepting.actions import Action, InterceptedRequest
    from penstock.testing.intercepting.taps import Interception, Taps
    from penstock.testing.scratch import Scratch

__all__ = ["Cluster", "NodeFailed", "NotPossible", "SettingValue"]

M = TypeVar("M")
T = TypeVar("T")

# Differences from `penstock start`: a free port, no other port unless requested
# (`metrics.listener`), and files deleted soon.
OVERRIDES = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "metrics.listener": "",
    "log.segment.delete.delay.ms": "1000",
}
MEMORY_DIRECTORY = Path("/dev/shm")
BROKERS_MAX = 1

SettingValue: TypeAlias = str | int | float | bool


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
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def check(self) -> None: ...


def texts_of(settings: Mapping[str, SettingValue]) -> dict[str, str]:
    """Return the settings as texts of Kafka's files: True is `true`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }


def node_settings(settings: Mapping[str, SettingValue], data: str) -> dict[str, str]:
    """Return the settings of a node for tests."""
    from penstock.config.single_node import SINGLE_NODE_SETTINGS

    return {**SINGLE_NODE_SETTINGS, **OVERRIDES, "log.dirs": data, **texts_of(settings)}


def _check_keys(settings: Mapping[str, str]) -> None:
    """Raise ValueError for an unknown broker key."""
    from penstock.config.check import unknown_broker_key
    from penstock.config.table import belongs_to_plugin, find_broker_key, removed_key

    for name in settings:
        known = find_broker_key(name) is not None or removed_key(name) is not None
        if not known and not belongs_to_plugin(name):
            raise ValueError(unknown_broker_key(name).message)


def _taps() -> "Taps":
    from penstock.testing.intercepting.taps import Taps

    return Taps()


class Cluster:
    """A cluster of one node on a free port of 127.0.0.1, which it keeps through restarts.

    Use it as a context manager, plain or async, or call `start` and `close`. Settings are Kafka's
    broker keys: Cluster({"num.partitions": 3}). With `processes` each node is a process.

    The data lives in memory, unless `data=` names a directory or `memory=False` asks for a
    temporary one. Processes use a temporary directory on disk; with `memory=True` that directory is
    in memory.

    Nodes have numbers from 1 on, or the one of `node.id`; the number of an only node may be
    omitted. A node that crashes breaks its connections. The next call of the cluster raises the
    cause, at the latest the stop or the end of the `with`.
    """

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        brokers: int = 1,
        processes: bool = False,
        data: str | os.PathLike[str] | None = None,
        memory: bool | None = None,
        **unknown: Never,
    ) -> None:
        for name in unknown:
            raise TypeError(
                f"Cluster takes no {name!r}; broker keys are settings: "
                f"Cluster({{{name.replace('_', '.')!r}: ...}})"
            )
        if settings is not None and not isinstance(settings, Mapping):
            raise TypeError(
                f"settings are a mapping of broker keys, not {settings!r}: "
                "Cluster({'num.partitions': 3})"
            )
        if not 1 <= brokers <= BROKERS_MAX:
            raise NotPossible(
                f"brokers={brokers}: nodes of Penstock do not replicate yet, so a cluster has one"
                " broker. A test that needs several can use an outside cluster"
                " (--penstock-bootstrap, penstock.testing.OutsideCluster)"
            )
        if data is not None and memory:
            raise ValueError("data= is a directory, memory=True is none: say one of them")
        self._settings = texts_of(settings or {})
        _check_keys(self._settings)
        self._processes = processes
        self._memory = (data is None and not processes) if memory is None else memory
        self._data = None if data is None else os.fspath(data)
        self._temporary: Scratch | None = None
        self._ports: list[HeldPort] = []
        self._taps = None if processes else _taps()
        self._nodes: dict[int, ClusterNode] = {}

    # -- start and stop

    def start(self) -> Self:
        """Start the nodes that do not run, on their data; return when they serve."""
        fresh = not self._nodes
        try:
            if fresh:
                self._make_nodes()
            waiting = [each for each in self._nodes.values() if not each.running]
            assert waiting, "this cluster is running"
            for node in waiting:
                node.start()
        except BaseException:
            if fresh:
                self._release()
            raise
        return self

    def stop(self, node: int | None = None) -> None:
        """Stop cleanly, as by SIGTERM. A stopped node can be started again."""
        if self._nodes:
            self._node(node).stop()

    def kill(self, node: int | None = None) -> None:
        """Stop at once, as by SIGKILL: without a flush, without notifying clients."""
        if self._nodes:
            self._node(node).kill()

    def restart(self, node: int | None = None) -> None:
        """Start again on the same data and port, after a clean stop if the node still runs."""
        found = self._node(node)
        found.stop()
        found.start()

    def pause(self, node: int | None = None) -> None:
        """Pause as by SIGSTOP: connections stay open, new ones are accepted, and requests wait."""
        self._running(node).pause()

    def resume(self, node: int | None = None) -> None:
        """Continue a paused node."""
        self._running(node).resume()

    def close(self) -> None:
        """Stop, and remove temporary files."""
        try:
            for node in self._nodes.values():
                node.stop()
        finally:
            self._release()
        if self._taps is not None:
            self._taps.end_all()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio

        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    # -- addresses, topics, time

    @property
    def bootstrap(self) -> str:
        """Return `host:port` for clients."""
        host, port = self.address
        return f"{host}:{port}"

    @property
    def address(self) -> tuple[str, int]:
        return self.addresses["PLAINTEXT"]

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Return the address of each listener, by its name."""
        return self._running(None).addresses

    @property
    def nodes(self) -> tuple[int, ...]:
        """Return the ids of the nodes, once they have been started."""
        return tuple(self._nodes)

    @property
    def metrics_url(self) -> str:
        """Return the URL of the metrics. Set `metrics.listener` first; port 0 picks a free one."""
        address = self._running(None).metrics_address
        assert address is not None, "metrics.listener was not set"
        return f"http://{address}/metrics"

    @property
    def data(self) -> str:
        """Return the directory with the data; only a name if the data is in memory."""
        return self._root()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, SettingValue] | None = None,
    ) -> str:
        """Create a topic and return its name."""
        from penstock.testing.external_cluster import make_topic

        make_topic(self.bootstrap, name, partitions, config)
        return name

    def advance(
        self,
        *durations: Never,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> None:
        """Put the node's clock forward: everything due by then happens now. Its clients, and the
        timestamps of their records, stay."""
        if durations:
            raise TypeError(f"name the unit: advance(seconds={durations[0]!r}), or minutes=, days=")
        passed_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds + milliseconds / 1000
        if passed_s < 0:
            raise ValueError(f"advance by {passed_s:g} seconds: time does not run backwards")
        self._embedded("advance").advance_ms(passed_s * 1000)

    @overload
    def intercept(
        self,
        api: type[M],
        answer: "Callable[[InterceptedRequest[M]], Action | None] | Action",
        *,
        times: int | None = None,
    ) -> "Interception": ...
    @overload
    def intercept(
        self,
        api: str | int,
        answer: "Callable[[InterceptedRequest[Any]], Action | None] | Action",
        *,
        times: int | None = None,
    ) -> "Interception": ...
    def intercept(
        self,
        api: "str | int | type[Any]",
        answer: "Callable[[InterceptedRequest[Any]], Action | None] | Action",
        *,
        times: int | None = None,
    ) -> "Interception":
        """Let `answer` decide about each request of an API, from now on.

        The API is given by its name, its number or its request class. `answer` is one action for
        all requests, or a function from the request to an action (None is Pass). The function runs
        on the node's loop: it must not wait, nor call this cluster. The interception ends with its
        `with`, by `end()`, or after `times` requests that did not pass; it survives a restart of
        the node.
        """
        from penstock.broker.handlers import HANDLERS
        from penstock.testing.intercepting.taps import check_action, find_api

        if self._taps is None:
            raise NotPossible(
                "intercept: only the requests of a node in this process can be intercepted; use"
                " Cluster() without processes=True"
            )
        found = find_api(api)
        if found.key not in HANDLERS:
            raise NotPossible(f"intercept: {found.name} is not served, so no client asks for it")
        if times is not None and times < 1:
            raise ValueError(f"times={times}: at least one request, or None for all of them")
        if not callable(answer):
            check_action(answer)
        return self._taps.add(found, answer, times)

    # -- for tests of the node itself

    @property
    def broker(self) -> "Broker":
        """Return the broker of the node; its loop runs on another thread."""
        return self._embedded("broker").broker

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the node's loop; return its result or raise its exception."""
        return self._embedded("call").call(function)

    # -- inside

    def _make_nodes(self) -> None:
        from penstock.config.broker import BrokerConfig

        settings = node_settings(self._settings, self._root())
        config = BrokerConfig.of(settings)
        settings["listeners"] = ",".join(str(self._with_port(config, x)) for x in config.listeners)
        self._nodes[config.node_id] = self._make_node(config.node_id, settings)

    def _make_node(self, number: int, settings: dict[str, str]) -> ClusterNode:
        if self._taps is None:
            from penstock.testing.process_node import ProcessNode

            return ProcessNode(settings, Path(self._scratch()) / f"node-{number}.log")
        from penstock.testing.embedded import EmbeddedNode

        return EmbeddedNode(settings, self._taps, memory=self._memory)

    def _with_port(self, config: "BrokerConfig", listener: "ListenerAddress") -> "ListenerAddress":
        """Return the listener with a fixed port, if any free one was requested."""

        if listener.port or listener.name in config.controller_listener_names:
            return listener
        held = HeldPort(listener.host)
        self._ports.append(held)
        return listener._replace(port=held.port)

    def _release(self) -> None:
        """Release the ports and files of this cluster."""
        self._nodes.clear()
        self._remove_temporary()
        for port in self._ports:
            port.close()
        self._ports.clear()

    def _root(self) -> str:
        if self._data is not None:
            return self._data
        if self._memory and not self._processes:
            return "memory"
        return os.path.join(self._scratch(), "data")

    def _scratch(self) -> str:
        """Return a directory of this cluster, which `close` removes."""
        if self._temporary is None:
            place = MEMORY_DIRECTORY if self._memory and self._processes else None
            if place is not None and not os.access(place, os.W_OK):
                raise NotPossible(
                    f"memory=True with processes=True needs {place}, a directory in memory"
                )
            from penstock.testing.scratch import Scratch

            self._temporary = Scratch(place)
            atexit.register(self._remove_temporary)
        return str(self._temporary.path)

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None
            atexit.unregister(self._remove_temporary)

    def _node(self, number: int | None) -> ClusterNode:
        assert self._nodes, "this cluster was not started"
        if number is None:
            assert len(self._nodes) == 1, "say which node: there are several"
            number = next(iter(self._nodes))
        if number not in self._nodes:
            known = ", ".join(map(str, self._nodes))
            raise ValueError(f"this cluster has no node {number}; there is {known}")
        return self._nodes[number]

    def _running(self, number: int | None) -> ClusterNode:
        node = self._node(number)
        node.check()
        assert node.running, "this cluster is not running"
        return node

    def _embedded(self, what: str) -> "EmbeddedNode":
        from penstock.testing.embedded import EmbeddedNode

        node = self._running(None)
        if not isinstance(node, EmbeddedNode):
            raise NotPossible(
                f"{what}: only for nodes in this process; use Cluster() without processes=True"
            )
        return node
