"""The world of a node in this process: real sockets and threads, clocks that can jump, disks in
memory or on the machine.
"""

import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from penstock.real.loop import Loop

if TYPE_CHECKING:
    from penstock.config.broker import BrokerConfig
    from penstock.real.world import RealWorld


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


def make_world(
    config: "BrokerConfig", ahead_ms: float, memory_disks: dict[str, Any] | None
) -> "RealWorld":
    """Return the world of a node's next life, its clocks `ahead_ms` forward. `memory_disks` are
    those of its earlier lives; None means that the disks are those of the machine."""
    from penstock.real.world import RealWorld
    from penstock.testing.sim.child_process import MemoryChildProcesses

    loop = FastClockLoop(ahead_ms)
    if memory_disks is None:
        return RealWorld(loop, group_access=config.group_access)
    disks = memory_disks

    class MemoryWorld(RealWorld):
        """Real sockets and threads over disks in memory, which survive a restart."""

        def disk(self, root: str) -> Any:
            from penstock.testing.sim.disk import MemoryDisk

            if root not in disks:
                disks[root] = MemoryDisk(root=root, soon=self.loop.soon)
                disks[root].now_ms = self.loop.wall_ms
            return disks[root]

    world = MemoryWorld(loop)
    world.child_processes = MemoryChildProcesses(world.disk, world.workers.run)
    for disk in disks.values():
        disk.use_loop(world.loop.soon)
        disk.now_ms = world.loop.wall_ms
    return world


def cut_off(world: "RealWorld", addresses: Collection[tuple[str, int]]) -> None:
    """Keep the node from these addresses of other nodes, and from no others."""
    from penstock.testing.partitioned_network import PartitionedNetwork

    assert isinstance(world.network, PartitionedNetwork), "one of several nodes"
    world.network.cut(addresses)


def format_disk(world: "RealWorld", config: "BrokerConfig", cluster_id: str) -> None:
    """Make an empty directory that of one of several nodes."""
    from penstock.broker.metadata.storage_format import LOCK_FILE, FormatRequest, format_now

    disk = world.disk(config.metadata_log_dir)
    if not disk.lock(LOCK_FILE):
        return  # the node reports it
    request = FormatRequest(cluster_id, config.node_id)
    format_now([disk], request, clock=world.clock, entropy=world.entropy)
    disk.unlock()
