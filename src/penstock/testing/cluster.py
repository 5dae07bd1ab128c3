"""A cluster for tests: real nodes in this process, or each in a separate process.

A closed cluster leaves nothing behind, nor does one whose test process ends otherwise. The next
cluster with files removes those of a killed one.
"""

import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, overload

from penstock.testing.cluster_files import ClusterFiles
from penstock.testing.cluster_nodes import ClusterNodes, NodeCounts
from penstock.testing.failures import NodeFailed, NotPossible
from penstock.testing.node_settings import SettingValue, check_keys, texts_of

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.testing.cluster_nodes import ClusterNode
    from penstock.testing.embedded import EmbeddedNode
    from penstock.testing.intercepting.actions import Action, InterceptedRequest
    from penstock.testing.intercepting.taps import Interception, Taps

__all__ = ["Cluster", "NodeFailed", "NotPossible", "SettingValue"]

M = TypeVar("M")
T = TypeVar("T")

WAIT_SECONDS_DEFAULT = 10.0


def _taps() -> "Taps":
    from penstock.testing.intercepting.taps import Taps

    return Taps()


class Cluster:
    """A cluster on free ports of 127.0.0.1, which it keeps through restarts: one node, or several.

    Use it as a context manager, plain or async, or call `start` and `close`. Settings are Kafka's
    broker keys: Cluster({"num.partitions": 3}). With `processes` each node is a process.

    Each of several `brokers` is a controller too, unless `controllers` asks for nodes apart. They
    have short timeouts (node_settings.SHORT_TIMEOUTS). Topics have three replicas, or one on each
    of fewer brokers, and acks=all needs all but one in sync. Settings override both.

    The data lives in memory, unless `data=` names a directory or `memory=False` asks for a
    temporary one. Processes use a temporary directory on disk; with `memory=True` that directory is
    in memory.

    Nodes have numbers from 1 on, or an only node that of `node.id`. A call without a number means
    all nodes. A node that crashes breaks its connections. The next call of the cluster raises the
    cause, at the latest the stop or the end of the `with`.
    """

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        brokers: int = 1,
        controllers: int | None = None,
        processes: bool = False,
        data: str | os.PathLike[str] | None = None,
        memory: bool | None = None,
        **unknown: Never,
    ) -> None:
        for name in unknown:
            if name == "nodes":
                raise TypeError("Cluster takes no 'nodes'; the option is brokers=")
            raise TypeError(
                f"Cluster takes no {name!r}; broker keys are settings: "
                f"Cluster({{{name.replace('_', '.')!r}: ...}})"
            )
        if settings is not None and not isinstance(settings, Mapping):
            raise TypeError(
                f"settings are a mapping of broker keys, not {settings!r}: "
                "Cluster({'num.partitions': 3})"
            )
        if data is not None and memory:
            raise ValueError("data= is a directory, memory=True is none: say one of them")
        self._counts = NodeCounts(brokers, controllers)
        self._settings = texts_of(settings or {})
        check_keys(self._settings, several=self._counts.several)
        self._processes = processes
        self._files = ClusterFiles(
            None if data is None else os.fspath(data),
            memory=(data is None and not processes) if memory is None else memory,
            processes=processes,
        )
        self._taps = None if processes else _taps()
        self._made = ClusterNodes(self._files, self._taps)
        self._sides: tuple[Collection[int], ...] = ()  # of the present partition

    # -- start and stop

    def start(self, node: int | None = None) -> Self:
        """Start all nodes that do not run, or one, on their data; return when they serve."""
        fresh = not self._nodes
        try:
            if fresh:
                self._make_nodes()
            waiting = [each for each in self._chosen(node) if not each.running]
            assert waiting, "this cluster is running"
            self._made.start(waiting)
        except BaseException:
            if fresh:
                self._release()
            raise
        return self

    def stop(self, node: int | None = None) -> None:
        """Stop cleanly, as by SIGTERM. A stopped node can be started again."""
        if self._nodes:
            self._made.stop(self._chosen(node))

    def kill(self, node: int | None = None) -> None:
        """Stop at once, as by SIGKILL: without a flush, without notifying clients."""
        if self._nodes:
            self._made.kill(self._chosen(node))

    def restart(self, node: int | None = None) -> None:
        """Start again on the same data and port, after a clean stop if the node still runs."""
        found = self._chosen(node)
        self._made.stop(found)
        self._made.start(found)

    def pause(self, node: int | None = None) -> None:
        """Pause as by SIGSTOP: connections stay open, new ones are accepted, and requests wait."""
        for each in self._running(node):
            each.pause()

    def resume(self, node: int | None = None) -> None:
        """Continue a paused node."""
        for each in self._running(node):
            each.resume()

    def close(self) -> None:
        """Stop, and remove temporary files. Several nodes without data to keep are killed: the
        last one would wait for a successor."""
        try:
            if self._counts.several and not self._files.keeps_data:
                self._made.kill(self._nodes.values())
            else:
                self._made.stop(self._nodes.values())
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

    # -- the network between nodes

    def partition(self, *sides: Collection[int]) -> None:
        """Let no byte pass between nodes of different sides; connections stay open, silent. Nodes
        of no side reach all others. Clients reach every node. A new partition ends the last one."""
        from penstock.testing.embedded import EmbeddedNode
        from penstock.testing.partitioned_network import addresses_to_cut

        if self._processes:
            raise NotPossible(
                "partition: only between nodes in this process; use Cluster(brokers=3) without "
                "processes=True, or pause(2), which silences a process towards all others"
            )
        cut = addresses_to_cut(self._made.members, sides)
        self._sides = sides
        for number, node in self._nodes.items():
            if isinstance(node, EmbeddedNode):
                node.cut_off(cut.get(number, frozenset()))

    def heal(self) -> None:
        """End the partition: all nodes reach each other, and what waited arrives."""
        self.partition()

    # -- addresses and leaders

    @property
    def bootstrap(self) -> str:
        """Return `host:port` of each broker for clients, with commas between."""
        return ",".join(f"{host}:{port}" for host, port in self._client_addresses().values())

    @property
    def address(self) -> tuple[str, int]:
        """Return the address of the only broker, or of the first one."""
        return next(iter(self._client_addresses().values()))

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        """Return the address of each listener of the only node, by its name."""
        return self._only_running(None).addresses

    def address_of(self, node: int) -> tuple[str, int]:
        """Return where clients reach a broker, also while it is away."""
        found = self._client_addresses()
        if node not in found:
            raise ValueError(f"node {node} is no broker; brokers are {_listed(found)}")
        return found[node]

    def _client_addresses(self) -> dict[int, tuple[str, int]]:
        for each in self._nodes.values():
            each.check()
        if not self._counts.several:
            return dict.fromkeys(self._nodes, self.addresses["PLAINTEXT"])
        assert self._nodes, "this cluster was not started"
        return {
            number: (each.client.host, each.client.port)
            for number, each in self._made.members.items()
            if each.client is not None
        }

    @property
    def nodes(self) -> tuple[int, ...]:
        """Return the ids of the nodes, once they have been started."""
        return tuple(self._nodes)

    def controller(self) -> int:
        """Return the id of the active controller; wait for the end of an election. A controller
        that was killed is known as such until the others elect another one."""
        from penstock.testing.cluster_questions import wait_for_controller

        return wait_for_controller(self._answering(), WAIT_SECONDS_DEFAULT)

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """Return the id of a partition's leader; None without one. A leader that was killed is
        known as such until its session ends (`broker.session.timeout.ms`)."""
        from penstock.testing.cluster_questions import partition_leader

        return partition_leader(self._answering(), topic, partition)

    def wait_until(
        self, condition: Callable[[], object], timeout_s: float = WAIT_SECONDS_DEFAULT
    ) -> None:
        """Wait until a condition is true; raise TimeoutError at the end of the time."""
        from penstock.testing.cluster_questions import wait_until

        wait_until(condition, timeout_s)

    def wait_until_in_sync(
        self, topic: str | None = None, timeout_s: float = WAIT_SECONDS_DEFAULT
    ) -> None:
        """Wait until all replicas of a topic, or of all topics, are in sync; raise TimeoutError
        with those that are not. Replicas of nodes that are stopped or paused are not in sync."""
        from penstock.testing.cluster_questions import wait_for_replicas

        answering = {
            number: address
            for number, address in self._client_addresses().items()
            if self._nodes[number].running and not self._nodes[number].paused
        }
        wait_for_replicas(answering, topic, timeout_s)

    def _answering(self) -> list[tuple[str, int]]:
        """Return the addresses of the brokers that run and are not paused. Those that reach the
        most nodes come first: a node that is cut off knows no news."""
        addresses = self._client_addresses()
        sizes = {number: len(side) for side in self._sides for number in side}
        answering = [
            number
            for number in addresses
            if self._nodes[number].running and not self._nodes[number].paused
        ]
        answering.sort(key=lambda number: -sizes.get(number, len(self._nodes)))
        return [addresses[number] for number in answering]

    @property
    def metrics_url(self) -> str:
        """Return the URL of the metrics. Set `metrics.listener` first; port 0 picks a free one."""
        return self.metrics_url_of(None)

    def metrics_url_of(self, node: int | None) -> str:
        address = self._only_running(node).metrics_address
        assert address is not None, "metrics.listener was not set"
        return f"http://{address}/metrics"

    @property
    def data(self) -> str:
        """Return the directory with the data; only a name if the data is in memory. Each of several
        nodes has a directory in it: `node-1` and so on."""
        return self._files.root

    # -- topics, time, requests

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
        """Put the clock of the only node forward: everything due by then happens now. Its clients,
        and the timestamps of their records, stay."""
        if durations:
            raise TypeError(f"name the unit: advance(seconds={durations[0]!r}), or minutes=, days=")
        passed_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds + milliseconds / 1000
        if passed_s < 0:
            raise ValueError(f"advance by {passed_s:g} seconds: time does not run backwards")
        if self._counts.several:
            raise NotPossible(
                "advance: only for a cluster of one node; a leap of several would end the sessions "
                "between them. Shorter timeouts are settings of the cluster"
            )
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
        """Let `answer` decide about each request of an API, on every node, from now on. Requests of
        nodes to controllers, and fetches of followers, are not intercepted.

        The API is given by its name, its number or its request class. `answer` is one action for
        all requests, or a function from the request to an action (None is Pass). The function runs
        on the node's loop and must not wait, nor call this cluster. The interception ends with its
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
        if found.key not in HANDLERS or "broker" not in found.listeners:
            raise NotPossible(f"intercept: {found.name} is not served, so no client asks for it")
        if times is not None and times < 1:
            raise ValueError(f"times={times}: at least one request, or None for all of them")
        if not callable(answer):
            check_action(answer)
        return self._taps.add(found, answer, times)

    # -- for tests of the node itself

    @property
    def broker(self) -> "Broker":
        """Return the broker of the only node; its loop runs on another thread."""
        return self.broker_of(None)

    def broker_of(self, node: int | None) -> "Broker":
        return self._embedded("broker", node).broker

    def call(self, function: Callable[[], T], node: int | None = None) -> T:
        """Call a function on the loop of a node; return its result or raise its exception."""
        return self._embedded("call", node).call(function)

    # -- inside

    @property
    def _nodes(self) -> "dict[int, ClusterNode]":
        return self._made.by_id

    def _make_nodes(self) -> None:
        if self._counts.several:
            self._made.make_several(self._settings, self._counts)
        else:
            self._made.make_one(self._settings)

    def _release(self) -> None:
        """Release the ports and files of this cluster."""
        self._made.release()
        self._files.remove()

    def _chosen(self, number: int | None) -> "list[ClusterNode]":
        """Return a node, or all without a number."""
        assert self._nodes, "this cluster was not started"
        if number is None:
            return [*self._nodes.values()]
        if number not in self._nodes:
            raise ValueError(f"this cluster has no node {number}; there is {_listed(self._nodes)}")
        return [self._nodes[number]]

    def _running(self, number: int | None) -> "list[ClusterNode]":
        """Return a node, or all that run without a number."""
        chosen = self._chosen(number)
        for each in chosen:
            each.check()
        running = [each for each in chosen if each.running]
        what = "this cluster" if number is None else f"node {number}"
        assert running, f"{what} is not running"
        return running

    def _only_running(self, number: int | None) -> "ClusterNode":
        assert number is not None or len(self._nodes) < 2, "say which node: there are several"
        return self._running(number)[0]

    def _embedded(self, what: str, number: int | None = None) -> "EmbeddedNode":
        from penstock.testing.embedded import EmbeddedNode

        node = self._only_running(number)
        if not isinstance(node, EmbeddedNode):
            raise NotPossible(
                f"{what}: only for nodes in this process; use Cluster() without processes=True"
            )
        return node


def _listed(numbers: "Collection[int]") -> str:
    return ", ".join(map(str, numbers))
