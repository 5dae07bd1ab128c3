"""A start waits for the disk and for nothing else."""

from collections.abc import Callable

import pytest
from simulated_node import API_VERSIONS, PRODUCE, Bench, api_versions, produce

from penstock.broker.storage.placements import PLACEMENTS
from penstock.config.broker import BrokerConfig
from penstock.node import PenstockNode
from penstock.node.node import LOADED_PER_SLICE_MAX
from penstock.testing.sim.world import Simulation, SimWorld, WorldDisk

WAIT_MS_MAX = 100.0  # a simulated disk takes up to 8 ms for each piece of work


def test_in_virtual_time_the_first_answer_comes_at_once() -> None:
    bench = Bench()
    client, heard = bench.connect()
    bench.receive(client, bench.frame(API_VERSIONS, api_versions()))
    assert heard.sent
    assert bench.simulation.now_ms < WAIT_MS_MAX


def test_so_it_does_over_the_data_of_a_node_before() -> None:
    before = Bench()
    before.create_topic("t", 20)
    bench = Bench(disks=before.stop())
    assert bench.simulation.now_ms < WAIT_MS_MAX


class Starting:
    """A node that opens the logs of one before, seen at every turn of its loop."""

    def __init__(self, disks: dict[str, WorldDisk]) -> None:
        self.simulation = Simulation(7)
        self.world = SimWorld(self.simulation, disks=disks)
        config = {"listeners": "PLAINTEXT://node:9092", "log.dirs": "data"}
        self.node = PenstockNode(self.world, BrokerConfig.of(config))
        self.ready = self.stopped = False
        self.node.start(self._is_ready, self._has_stopped)

    def _is_ready(self) -> None:
        self.ready = True

    def _has_stopped(self) -> None:
        self.stopped = True

    def opened(self) -> int | None:
        """How many partitions are open, as `penstock log status` has it; None unless it is told."""
        assert self.node.broker is not None, "directories are opened before the loop runs"
        return next((each.done for each in self.node.broker.recovery_progress.progress()), None)


def many_logs() -> Bench:
    bench = Bench()
    bench.create_topic("t", 3 * LOADED_PER_SLICE_MAX)
    client, heard = bench.connect()
    bench.receive(client, bench.frame(PRODUCE, produce("t", b"kept", 5)))
    bench.settle()
    assert heard.sent
    client.closed()
    return bench


def killed(bench: Bench) -> dict[str, WorldDisk]:
    bench.world.kill()
    return bench.world.disks_after_kill()


@pytest.mark.parametrize("end", [Bench.stop, killed])
def test_between_the_logs_that_it_opens_a_node_tells_how_far_it_is(
    end: Callable[[Bench], dict[str, WorldDisk]],
) -> None:
    starting = Starting(end(many_logs()))
    seen: set[int | None] = set()
    while not starting.ready:
        assert starting.simulation.step()
        seen.add(starting.opened())
    assert {each for each in seen if each} - {3 * LOADED_PER_SLICE_MAX}


@pytest.mark.parametrize("end", [Bench.stop, killed])
def test_a_stop_while_logs_are_opened_costs_the_next_start_nothing(
    end: Callable[[Bench], dict[str, WorldDisk]],
) -> None:
    starting = Starting(end(many_logs()))
    starting.simulation.run_until(lambda: starting.opened() is not None)
    starting.node.stop()
    starting.simulation.run_until(lambda: starting.stopped)
    assert not starting.ready
    starting.world.kill()
    again = Bench(disks=starting.world.disks_after_kill())
    assert again.broker.find("t", 5).leader.high_watermark == 1


def test_a_kill_while_logs_are_opened_costs_the_next_start_nothing() -> None:
    starting = Starting(killed(many_logs()))
    starting.simulation.run_until(lambda: starting.opened() is not None)
    starting.node.kill()
    starting.world.kill()
    again = Bench(disks=starting.world.disks_after_kill())
    assert again.broker.find("t", 5).leader.high_watermark == 1


def test_a_start_that_is_cut_short_forgets_no_partition() -> None:
    disks = many_logs().stop()
    told = disks["data"].open(PLACEMENTS).read_now(0, 1 << 20)
    starting = Starting(disks)
    starting.simulation.run_until(lambda: starting.opened() is not None)
    broker = starting.node.broker
    assert broker is not None
    starting.node.stop()
    broker.replicas.placements.changed()
    starting.simulation.run_for(10_000)
    assert disks["data"].open(PLACEMENTS).read_now(0, 1 << 20) == told
