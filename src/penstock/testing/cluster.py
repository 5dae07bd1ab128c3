"""An embedded node: the same code as `penstock start`, on a thread of the test's process."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.node import Node
    from penstock.real.world import RealWorld

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0
# Where a node for tests differs from `penstock start`: a free port, and no other unless it is asked
# for (`metrics.listener`); files soon deleted.
OVERRIDES = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "metrics.listener": "",
    "log.segment.delete.delay.ms": "1000",
}


class NodeFailed(Exception):
    """The node gave up by itself; the text says why."""


SettingValue: TypeAlias = str | int | float | bool


def _texts(settings: Mapping[str, SettingValue]) -> dict[str, str]:
    """As Kafka's files have them: True is `true`."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }


class Cluster:
    """A cluster of one node on a free port of 127.0.0.1.

    Use it as a context manager, plain or async, or call `start` and `stop`. The data lives in
    memory unless a directory is given (`data=`) or a temporary one is asked for (`memory=False`).
    Settings are Kafka's broker keys: Cluster({"num.partitions": 3}).

    A node that crashes breaks its connections, and the cause is raised by whatever is asked of the
    cluster next, at the latest when it is stopped or its `with` ends.
    """

    def __init__(
        self,
        settings: Mapping[str, SettingValue] | None = None,
        *,
        data: str | os.PathLike[str] | None = None,
        memory: bool | None = None,
    ) -> None:
        self._settings = _texts(settings or {})
        self._memory = data is None if memory is None else memory
        self._data = None if data is None else os.fspath(data)
        self._temporary: str | None = None
        self._memory_disks: dict[str, Any] = {}
        self._world: RealWorld | None = None
        self._node: Node | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._cause: BaseException | None = None  # why the node ended by itself

    # -- life

    def start(self) -> Self:
        """Start the node, or start it again on the same data; returns when it serves."""
        assert self._thread is None, "this cluster is running"
        self._ready.clear()
        self._cause = None
        self._thread = threading.Thread(target=self._run, name="penstock-node", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_SECONDS_MAX):
            raise TimeoutError(f"the node did not start within {START_SECONDS_MAX:.0f} seconds")
        if self._cause is not None:
            self._forget()
        return self

    def stop(self) -> None:
        """A clean stop, as by SIGTERM. A stopped cluster can be started again."""
        self._end(lambda node: node.stop())

    def kill(self) -> None:
        """Stop at once, as by SIGKILL: nothing is flushed, nobody is told."""
        self._end(lambda node: node.kill())

    def _end(self, how: Callable[["Node"], None]) -> None:
        world, node = self._world, self._node
        if self._thread is None:
            return
        if self._thread.is_alive() and world is not None and node is not None:
            world.loop.call_from_thread(lambda: how(node))
        self._forget()

    def _forget(self) -> None:
        """Wait for the end of the node; raises what ended it, if that was not asked for."""
        assert self._thread is not None, "there is a node to wait for"
        self._thread.join(STOP_SECONDS_MAX)
        if self._thread.is_alive():
            raise TimeoutError(f"the node did not stop within {STOP_SECONDS_MAX:.0f} seconds")
        self._thread = self._world = self._node = None
        if self._cause is not None:
            raise self._cause

    def close(self) -> None:
        """Stop, and remove what is temporary."""
        try:
            self.stop()
        finally:
            self._memory_disks.clear()
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)
                self._temporary = None

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
        node = self._running()
        return {each.name: node.advertised(each) for each in self.broker.listeners}

    @property
    def metrics_url(self) -> str:
        """Where metrics are served, if `metrics.listener` was set; port 0 picks a free one."""
        address = self._running().metrics_address
        assert address is not None, "metrics.listener was not set"
        return f"http://{address}/metrics"

    @property
    def broker(self) -> "Broker":
        """The node's inside, for tests of the node itself; its loop runs on another thread."""
        broker = self._running().broker
        assert broker is not None, "a node that is ready has a broker"
        return broker

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
        from penstock.client.admin import Admin
        from penstock.client.values import NewTopic

        with Admin(self.bootstrap) as admin:
            topic = NewTopic(name, partitions=partitions, configs=_texts(config or {}))
            result = admin.create_topics([topic])[name]
        if isinstance(result, Exception):
            raise result
        return name

    def pass_time(self, seconds: float) -> None:
        """Let the node believe that so much time has passed: what is due by then happens now. Its
        clients, and records stamped by them, stay where they are."""
        from penstock.testing.hasty_loop import HastyLoop

        self._running()
        assert self._world is not None, "a running node has a world"
        loop = self._world.loop
        assert isinstance(loop, HastyLoop), "an embedded node runs on such a loop"
        passed = threading.Event()

        def turns_ended() -> None:
            loop.soon(lambda: loop.soon(passed.set))

        def leap() -> None:
            loop.leap_ms(seconds * 1000)
            loop.soon(turns_ended)

        loop.call_from_thread(leap)
        if not passed.wait(START_SECONDS_MAX):
            raise TimeoutError("the node does not turn")

    # -- inside

    def _root(self) -> str:
        if self._data is not None:
            return self._data
        if self._memory:
            return "memory"
        if self._temporary is None:
            self._temporary = tempfile.mkdtemp(prefix="penstock-")
        return self._temporary

    def _running(self) -> "Node":
        if self._cause is not None:
            raise self._cause
        assert self._node is not None, "this cluster is not running"
        return self._node

    def _run(self) -> None:
        try:
            world = self._make_world()
            try:
                self._run_in(world)
            finally:
                world.close()
        except BaseException as error:
            self._cause = error
        finally:
            self._ready.set()

    def _run_in(self, world: "RealWorld") -> None:
        from penstock.config.broker import BrokerConfig
        from penstock.config.single_node import SINGLE_NODE_SETTINGS
        from penstock.node import Node

        ours = {**SINGLE_NODE_SETTINGS, **OVERRIDES, "log.dirs": self._root()}
        node = Node(world, BrokerConfig.of({**ours, **self._settings}))
        node.start(self._ready.set, world.loop.stop)
        self._world, self._node = world, node
        try:
            world.loop.run()
        except BaseException:
            node.kill()  # its locks go, as with a process
            raise
        if node.failure is not None:
            raise NodeFailed(node.failure)

    def _make_world(self) -> "RealWorld":
        from penstock.real.world import RealWorld
        from penstock.testing.hasty_loop import HastyLoop
        from penstock.testing.sim.apart import MemoryApart

        if not self._memory:
            return RealWorld(HastyLoop())
        disks = self._memory_disks

        class MemoryWorld(RealWorld):
            """Real sockets and threads over disks in memory, which outlive a restart."""

            def disk(self, root: str) -> Any:
                from penstock.testing.sim.disk import MemoryDisk

                if root not in disks:
                    disks[root] = MemoryDisk(root=root, soon=self.loop.soon)
                    disks[root].now_ms = self.loop.wall_ms
                return disks[root]

        world = MemoryWorld(HastyLoop())
        world.apart = MemoryApart(world.disk, world.workers.run)
        for disk in disks.values():
            disk.use_loop(world.loop.soon)
            disk.now_ms = world.loop.wall_ms
        return world
