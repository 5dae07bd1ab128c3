"""A node on a thread of this process: the code of `penstock start`, on a disk or in memory.

If the node ends by itself, the next call raises the cause. A test may put its clock forward and
hold its loop; a kill leaves the files that SIGKILL would leave.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.testing.embedded_world import (
    FastClockLoop,
    LoopPause,
    cut_off,
    format_disk,
    make_world,
)
from penstock.testing.failures import NodeFailed, NotPossible, late_start

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.config.broker import BrokerConfig
    from penstock.node import PenstockNode
    from penstock.real.world import RealWorld
    from penstock.testing.intercepting.taps import Taps

T = TypeVar("T")

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0
LOOK_SECONDS = 0.05


class EmbeddedNode:
    """One node, which can be started again on the same data."""

    def __init__(
        self,
        settings: Mapping[str, str],
        taps: "Taps",
        *,
        memory: bool,
        one_of_several: bool = False,
        format_as: str | None = None,
    ) -> None:
        """Prepare a node. `one_of_several` can be cut off from the others. `format_as` is the
        cluster of an empty directory, if the node does not format that by itself."""
        self._settings = settings
        self._taps = taps
        self._memory_disks: dict[str, Any] | None = {} if memory else None
        self._one_of_several = one_of_several
        self._format_as = format_as
        self._cut: frozenset[tuple[str, int]] = frozenset()  # addresses of other nodes
        self._world: RealWorld | None = None
        self._node: PenstockNode | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._pause: LoopPause | None = None
        self._cause: BaseException | None = None  # the cause if the node ended by itself
        self._ahead_ms = 0.0  # the lead of its clock, which a restart keeps

    # -- start and stop

    @property
    def running(self) -> bool:
        """Return whether the node was started and not stopped. A failed node counts as running."""
        return self._thread is not None

    @property
    def paused(self) -> bool:
        return self._pause is not None

    def begin_start(self) -> None:
        self._ready.clear()
        self._cause = None
        self._thread = threading.Thread(target=self._run, name="penstock-node", daemon=True)
        self._thread.start()

    def await_start(self) -> None:
        if not self._ready.wait(START_SECONDS_MAX):
            raise TimeoutError(late_start(self._settings, START_SECONDS_MAX))
        if self._cause is not None:
            self.await_end()

    def begin_stop(self) -> None:
        """Stop cleanly, as by SIGTERM."""
        self._begin_end(lambda node: node.stop())

    def kill(self) -> None:
        """Stop as by SIGKILL."""
        self._begin_end(lambda node: node.kill())
        self.await_end()

    def _begin_end(self, how: Callable[["PenstockNode"], None]) -> None:
        world, node, pause = self._world, self._node, self._pause
        self._pause = None
        if pause is not None and node is not None:
            pause.end(lambda: how(node))
        elif self.running and world is not None and node is not None:
            world.loop.call_from_thread(lambda: how(node))

    def await_end(self) -> None:
        """Wait for the end of the node; raise the cause if the node failed."""
        if self._thread is None:
            return
        self._thread.join(STOP_SECONDS_MAX)
        if self._thread.is_alive():
            raise TimeoutError(f"the node did not stop within {STOP_SECONDS_MAX:.0f} seconds")
        self._thread = self._world = self._node = None
        if self._cause is not None:
            raise self._cause

    def pause(self) -> None:
        """Pause as by SIGSTOP: connections stay open, and requests wait."""
        if self._pause is not None:
            return
        world = self._running_world()
        pause = LoopPause()
        world.loop.call_from_thread(pause.hold)
        if not pause.begun.wait(START_SECONDS_MAX):
            self.check()
            raise TimeoutError("the node does not turn")
        self._pause = pause

    def resume(self) -> None:
        if self._pause is not None:
            self._pause.end()
            self._pause = None

    # -- state

    def check(self) -> None:
        """Raise the failure that ended the node, if any."""
        if self._cause is not None:
            raise self._cause

    @property
    def addresses(self) -> dict[str, tuple[str, int]]:
        node = self._running_node()
        return {each.name: node.advertised(each) for each in self.broker.listeners}

    @property
    def metrics_address(self) -> str | None:
        address = self._running_node().metrics_address
        return None if address is None else str(address)

    @property
    def broker(self) -> "Broker":
        broker = self._running_node().broker
        assert broker is not None, "a node that is ready has a broker"
        return broker

    # -- its loop

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop; return its result or raise its exception."""
        self._check_turning()
        outcome: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

        def run() -> None:
            try:
                outcome.put((function(), None))
            except Exception as error:
                outcome.put((None, error))

        self._running_world().loop.call_from_thread(run)
        result, error = self._wait_for(outcome)
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # without an error there is one

    def advance_ms(self, duration_ms: float) -> None:
        """Put both clocks forward, and wait until everything due by then has happened."""

        self._check_turning()
        loop = self._running_world().loop
        assert isinstance(loop, FastClockLoop), "an embedded node runs on such a loop"
        passed: SimpleQueue[None] = SimpleQueue()

        def turns_ended() -> None:
            loop.soon(lambda: loop.soon(lambda: passed.put(None)))

        self._ahead_ms += duration_ms

        def leap() -> None:
            loop.leap_ms(duration_ms)
            loop.soon(turns_ended)

        loop.call_from_thread(leap)
        self._wait_for(passed)

    def _wait_for(self, outcome: "SimpleQueue[T]") -> T:
        """Return the answer of the loop. Raise the cause as soon as the node ends without one."""
        thread, end_s = self._thread, time.monotonic() + START_SECONDS_MAX
        while True:
            ended = thread is None or not thread.is_alive()  # an answer came before that, or never
            try:
                return outcome.get(timeout=0.0 if ended else LOOK_SECONDS)
            except Empty:
                if ended or time.monotonic() > end_s:
                    self.check()
                    raise TimeoutError("the node does not turn") from None

    def _check_turning(self) -> None:
        if self._pause is not None:
            raise NotPossible("the node is paused: resume it first")

    def _running_node(self) -> "PenstockNode":
        self.check()
        assert self._node is not None, "this node is not running"
        return self._node

    def _running_world(self) -> "RealWorld":
        self._running_node()
        assert self._world is not None, "a running node has a world"
        return self._world

    def cut_off(self, addresses: Collection[tuple[str, int]]) -> None:
        """Keep this node from these addresses of other nodes, and from no others."""
        self._cut = frozenset(addresses)
        world = self._world
        if world is not None:
            world.loop.call_from_thread(lambda: cut_off(world, self._cut))

    # -- on its own thread

    def _run(self) -> None:
        try:
            from penstock.config.broker import BrokerConfig

            config = BrokerConfig.of(self._settings)
            world = self._make_world(config)
            try:
                self._run_in(world, config)
            finally:
                world.close()
        except BaseException as error:
            self._cause = error
        finally:
            self._ready.set()

    def _run_in(self, world: "RealWorld", config: "BrokerConfig") -> None:
        from penstock.broker.handlers import CONTROLLER
        from penstock.node import PenstockNode
        from penstock.testing.intercepting.connection import tapped

        if self._format_as is not None:
            format_disk(world, config, self._format_as)
            self._format_as = None
        node = PenstockNode(world, config)
        node.start(self._ready.set, world.loop.stop)
        assert node.broker is not None, "a node that has started has a broker"
        for listener in node.broker.listeners:
            if listener.kind != CONTROLLER:  # the requests of nodes are no matter of a test
                listener.connect = tapped(self._taps)
        self._world, self._node = world, node
        try:
            world.loop.run()
        except BaseException:
            node.kill()  # its locks go, as with a process
            raise
        if node.failure is not None:
            raise NodeFailed(node.failure)

    def _make_world(self, config: "BrokerConfig") -> "RealWorld":
        world = make_world(config, self._ahead_ms, self._memory_disks)
        if self._one_of_several:
            from penstock.testing.partitioned_network import PartitionedNetwork

            world.network = PartitionedNetwork(world.loop, self._cut)
        return world
