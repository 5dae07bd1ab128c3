"""A node on a thread of this process: the code of `penstock start`, on a disk or in memory.

If the node ends by itself, the next call raises the cause. A test may put its clock forward and
hold its loop; a kill leaves the files that SIGKILL would leave.
"""

import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.real.loop import Loop
from penstock.testing.failures import NodeFailed, NotPossible

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.node import PenstockNode
    from penstock.real.world import RealWorld
    from penstock.testing.intercepting.taps import Taps

T = TypeVar("T")

START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0
LOOK_SECONDS = 0.05


class FastClockLoop(Loop):
    """A loop whose two clocks run normally and can jump forward."""

    def __init__(self, ahead_ms: float = 0.0) -> None:
        super().__init__()
        self._ahead_ms = ahead_ms

    def leap_ms(self, duration_ms: float) -> None:
        """Put the clocks forward, on the loop; timers due by then run in the next turn."""
        assert duration_ms >= 0, "time does not run backwards"
        self._ahead_ms += duration_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + int(self._ahead_ms)

    def mono_ms(self) -> float:
        return super().mono_ms() + self._ahead_ms


class LoopPause:
    """Holds the thread of a loop until `end`, and then runs one call before all others."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._over = threading.Event()
        self._first: Callable[[], None] = lambda: None

    def hold(self) -> None:
        """Block the loop; runs on the loop."""
        self.begun.set()
        self._over.wait()
        self._first()

    def end(self, first: Callable[[], None] = lambda: None) -> None:
        self._first = first
        self._over.set()


class EmbeddedNode:
    """One node, which can be started again on the same data."""

    def __init__(self, settings: Mapping[str, str], taps: "Taps", *, memory: bool) -> None:
        self._settings = settings
        self._taps = taps
        self._memory = memory
        self._memory_disks: dict[str, Any] = {}
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

    def start(self) -> None:
        self._ready.clear()
        self._cause = None
        self._thread = threading.Thread(target=self._run, name="penstock-node", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_SECONDS_MAX):
            raise TimeoutError(f"the node did not start within {START_SECONDS_MAX:.0f} seconds")
        if self._cause is not None:
            self._forget()

    def stop(self) -> None:
        """Stop cleanly, as by SIGTERM."""
        self._end(lambda node: node.stop())

    def kill(self) -> None:
        """Stop as by SIGKILL."""
        self._end(lambda node: node.kill())

    def _end(self, how: Callable[["PenstockNode"], None]) -> None:
        world, node, pause = self._world, self._node, self._pause
        if self._thread is None:
            return
        self._pause = None
        if pause is not None and node is not None:
            pause.end(lambda: how(node))
        elif self._thread.is_alive() and world is not None and node is not None:
            world.loop.call_from_thread(lambda: how(node))
        self._forget()

    def _forget(self) -> None:
        """Wait for the end of the node; raise the cause if the node failed."""
        assert self._thread is not None, "there is a node to wait for"
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

    # -- on its own thread

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
        from penstock.node import PenstockNode
        from penstock.testing.intercepting.connection import tapped

        node = PenstockNode(world, BrokerConfig.of(self._settings))
        node.start(self._ready.set, world.loop.stop)
        assert node.broker is not None, "a node that has started has a broker"
        for listener in node.broker.listeners:
            listener.connect = tapped(self._taps)
        self._world, self._node = world, node
        try:
            world.loop.run()
        except BaseException:
            node.kill()  # its locks go, as with a process
            raise
        if node.failure is not None:
            raise NodeFailed(node.failure)

    def _make_world(self) -> "RealWorld":
        from penstock.config.broker import BrokerConfig
        from penstock.real.world import RealWorld
        from penstock.testing.sim.child_process import MemoryChildProcesses

        if not self._memory:
            group_access = BrokerConfig.of(self._settings).group_access
            return RealWorld(FastClockLoop(self._ahead_ms), group_access=group_access)
        disks = self._memory_disks

        class MemoryWorld(RealWorld):
            """Real sockets and threads over disks in memory, which survive a restart."""

            def disk(self, root: str) -> Any:
                from penstock.testing.sim.disk import MemoryDisk

                if root not in disks:
                    disks[root] = MemoryDisk(root=root, soon=self.loop.soon)
                    disks[root].now_ms = self.loop.wall_ms
                return disks[root]

        world = MemoryWorld(FastClockLoop(self._ahead_ms))
        world.child_processes = MemoryChildProcesses(world.disk, world.workers.run)
        for disk in disks.values():
            disk.use_loop(world.loop.soon)
            disk.now_ms = world.loop.wall_ms
        return world
