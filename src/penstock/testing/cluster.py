"""A cluster for tests: real nodes in this process, or each in a process of its own.

Nothing of it is left when it is closed, nor when the test's process ends in any other way; the
files of one that was killed go with the next cluster that has files.
"""

import atexit
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Protocol, Self, TypeAlias, TypeVar, overload

from penstock.testing.failures import NodeFailed, NotPossible

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.config.broker import BrokerConfig
    from penstock.config.listeners import Listener
    from penstock.testing.embedded import EmbeddedNode
    from penstock.testing.intercepting.actions import Action, InterceptedRequest
    from penstock.testing.intercepting.taps import Interception, Taps
    from penstock.testing.ports import HeldPort
    from penstock.testing.scratch import Scratch

__all__ = ["Cluster", "NodeFailed", "NotPossible", "SettingValue"]

M = TypeVar("M")
T = TypeVar("T")

# Where a node for tests differs from `penstock start`: a free port, and no other unless it is asked
# for (`metrics.listener`); files soon deleted.
OVERRIDES = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "metrics.listener": "",
    "log.segment.delete.delay.ms": "1000",
}
MEMORY_DIRECTORY = Path("/dev/shm")
BROKERS_MAX = 1

SettingValue: TypeAlias = str | int | float | bool


class ClusterNode(Protocol):
    """One node, whichever way it runs."""

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
    """As Kafka's files have them: True is `true`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }


def node_settings(settings: Mapping[str, SettingValue], data: str) -> dict[str, str]:
    """What a node for tests is started with."""
    from penstock.config.single_node import SINGLE_NODE_SETTINGS

    return {**SINGLE_NODE_SETTINGS, **OVERRIDES, "log.dirs": data, **texts_of(settings)}


def _check_keys(settings: Mapping[str, str]) -> None:
    """Raise ValueError about a key that no broker has."""
    from penstock.config.check import unknown_broker_key
    from penstock.config.table import belongs_to_plugin, find_broker_key, retired

    for name in settings:
        known = find_broker_key(name) is not None or retired(name) is not None
        if not known and not belongs_to_plugin(name):
            raise ValueError(unknown_broker_key(name).message)


def _taps() -> "Taps":
    from penstock.testing.intercepting.taps import Taps

    return Taps()


class Cluster:
    """A cluster of one node on a free port of 127.0.0.1, which it keeps through restarts.

    Use it as a context manager, plain or async, or call `start` and `close`. Settings are Kafka's
    broker keys: Cluster({"num.partitions": 3}). With `processes` each node is a process. The data
    lives in memory unless a directory is given (`data=`) or a temporary one is asked for
    (`memory=False`); that of processes lies in a temporary directory, unless `memory=True` says
    that it is to be one in memory.

    Nodes have numbers, from 1 on, or what `node.id` says; without one the only node is meant.

    A node that crashes breaks its connections, and the cause is raised by whatever is asked of the
    cluster next, at the latest when it is stopped or its `with` ends.
    """

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        brokers: int = 1,
        processes: bool = False,
        data: str | os.PathLike[str] | None = None,
        memory: bool | None = None,
    ) -> None:
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

    # -- life

    def start(self) -> Self:
        """Start the nodes that do not run, again on their data; returns when they serve."""
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
        """A clean stop, as by SIGTERM. What is stopped can be started again."""
        if self._nodes:
            self._node(node).stop()

    def kill(self, node: int | None = None) -> None:
        """Stop at once, as by SIGKILL: nothing is flushed, nobody is told."""
        if self._nodes:
            self._node(node).kill()

    def restart(self, node: int | None = None) -> None:
        """Start again on the same data and port, after a clean stop if it still runs."""
        found = self._node(node)
        found.stop()
        found.start()

    def pause(self, node: int | None = None) -> None:
        """As by SIGSTOP: connections stay open, new ones are taken, and nobody is answered."""
        self._running(node).pause()

    def resume(self, node: int | None = None) -> None:
        """Let a paused node go on."""
        self._running(node).resume()

    def close(self) -> None:
        """Stop, and remove what is temporary."""
        try:
            for node in self._nodes.values():
                node.stop()
        finally:
            self._release()
        if self._taps is not None:
            self._taps.end_all()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio

        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    # -- what a test needs

    @property
    def bootstrap(self) -> str:
        """host:port for clients."""
        host, port = self.address
        return f"{host}:{port}"

    @property
    def address(self) -> tuple[str, int]:
        return self.addresses["PLAINTEXT"]

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Where each listener can be reached, by its name."""
        return self._running(None).addresses

    @property
    def nodes(self) -> tuple[int, ...]:
        """The numbers of the nodes, once they have been started."""
        return tuple(self._nodes)

    @property
    def metrics_url(self) -> str:
        """Where metrics are served, if `metrics.listener` was set; port 0 picks a free one."""
        address = self._running(None).metrics_address
        assert address is not None, "metrics.listener was not set"
        return f"http://{address}/metrics"

    @property
    def data(self) -> str:
        """The directory with the data; a name only while it is in memory."""
        return self._root()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, SettingValue] | None = None,
    ) -> str:
        """Create a topic and return its name."""
        from penstock.testing.outside import make_topic

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
        """Let the node believe that so much time has passed: what is due by then happens now. Its
        clients, and records stamped by them, stay where they are."""
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
        """From now on `answer` decides about each request of an API, named by its name, its number
        or its request class: one action for all, or a function that gets the request and gives one
        (None is Pass). It runs on the node's loop: it must not wait, nor ask this cluster for
        anything. It ends with its `with`, by `end()`, or after `times` requests that did not pass;
        a restart of the node does not end it."""
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
        """The node's inside; its loop runs on another thread."""
        return self._embedded("broker").broker

    def call(self, function: Callable[[], T]) -> T:
        """Call it on the node's loop, and give back what it returns or raises."""
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

    def _with_port(self, config: "BrokerConfig", listener: "Listener") -> "Listener":
        """A port that stays its own, where any free one was asked for."""
        from penstock.testing.ports import HeldPort

        if listener.port or listener.name in config.controller_listener_names:
            return listener
        held = HeldPort(listener.host)
        self._ports.append(held)
        return listener._replace(port=held.port)

    def _release(self) -> None:
        """Nothing of this cluster is left."""
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
        """A directory of this cluster's own, until it is closed."""
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
