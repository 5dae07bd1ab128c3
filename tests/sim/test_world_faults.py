"""Faults between simulated machines: cut paths, machines that vanish, pauses, clocks that drift."""

import pytest
from connected_pair import Pair

from penstock.testing.sim.disk import SimDisk
from penstock.testing.sim.world import Simulation, SimWorld


def connect(pair: Pair, timeout_ms: float = 1_000) -> list[str]:
    """Connect once more; return a list that gets "opened" or the reason of a failure."""
    results: list[str] = []

    def opened(_peer: object) -> object:
        results.append("opened")
        return pair.near

    pair.client.network.connect("server", 1, opened, results.append, timeout_ms)  # type: ignore[arg-type]
    return results


def test_bytes_wait_for_a_cut_path_and_arrive_when_it_heals() -> None:
    pair = Pair(1)
    pair.simulation.network.separate(["client"], ["server"])
    pair.peers["near"].send([b"late"])
    pair.simulation.run_for(60_000)
    assert pair.far.data == b""
    pair.simulation.network.heal()
    pair.simulation.run_until(lambda: pair.far.data == b"late")


def test_a_path_cut_in_one_direction_leaves_the_other() -> None:
    pair = Pair(1)
    pair.simulation.network.cut("client", "server")
    pair.peers["near"].send([b"lost"])
    pair.peers["far"].send([b"heard"])
    pair.simulation.run_for(1_000)
    assert (pair.far.data, pair.near.data) == (b"", b"heard")


def test_an_end_is_not_heard_over_a_cut_path() -> None:
    pair = Pair(1)
    pair.simulation.network.separate(["client"], ["server"])
    pair.peers["near"].close()
    pair.simulation.run_for(60_000)
    assert not pair.far.ended
    pair.simulation.network.heal()
    pair.simulation.run_until(lambda: pair.far.ended)


@pytest.mark.parametrize(("source", "target"), [("client", "server"), ("server", "client")])
def test_an_attempt_to_connect_hangs_until_its_limit(source: str, target: str) -> None:
    pair = Pair(1)
    pair.simulation.network.cut(source, target)
    results = connect(pair)
    pair.simulation.run_for(2_000)
    assert results == ["no connection within 1000 ms"]


def test_an_attempt_to_connect_goes_on_when_the_path_heals() -> None:
    pair = Pair(1)
    pair.simulation.network.separate(["client"], ["server"])
    results = connect(pair)
    pair.simulation.run_for(500)
    assert not results
    pair.simulation.network.heal()
    pair.simulation.run_for(100)
    assert results == ["opened"]


def test_a_killed_process_is_heard_of_at_once() -> None:
    pair = Pair(1)
    pair.server.kill()
    pair.simulation.run_for(100)
    assert pair.near.ended


def test_a_machine_that_vanishes_is_not_heard_of() -> None:
    pair = Pair(1)
    pair.server.kill(machine=True)
    pair.peers["near"].send([b"anybody there"])
    pair.simulation.run_for(60_000)
    assert not pair.near.ended


def test_an_attempt_to_reach_a_vanished_machine_hangs() -> None:
    pair = Pair(1)
    pair.server.kill(machine=True)
    results = connect(pair)
    pair.simulation.run_for(2_000)
    assert results == ["no connection within 1000 ms"]


def test_a_machine_that_is_back_resets_old_connections() -> None:
    pair = Pair(1)
    pair.server.kill(machine=True)
    back = SimWorld(pair.simulation, "again", host="server")
    back.network.listen("server", 1, lambda _peer: pair.far)
    pair.peers["near"].send([b"anybody there"])
    pair.simulation.run_until(lambda: pair.near.ended)


def test_events_of_a_paused_process_wait_and_keep_their_order() -> None:
    simulation = Simulation(1)
    paused, other = SimWorld(simulation, "paused"), SimWorld(simulation, "other")
    seen: list[str] = []
    for delay_ms, world, name in ((1, paused, "a"), (2, paused, "b"), (3, other, "c")):
        at_ms = world.clock.mono_ms() + delay_ms
        world.timers.at(at_ms, lambda name=name: seen.append(name))  # type: ignore[misc]
    paused.pause(100)
    simulation.run_for(50)
    assert seen == ["c"]
    simulation.run_for(51)
    assert seen == ["c", "a", "b"]


def test_a_fast_clock_reaches_its_timers_early() -> None:
    simulation = Simulation(1)
    world = SimWorld(simulation, "fast", clock_rate=1.01)
    seen: list[float] = []
    world.timers.at(world.clock.mono_ms() + 1_010, lambda: seen.append(simulation.now_ms))
    simulation.run_for(2_000)
    assert seen == [pytest.approx(1_000)]


def test_a_rotten_byte_is_read_until_the_rot_ends() -> None:
    disk = SimDisk(1)
    disk.make_directory("log")
    file = disk.open("log/0", create=True)
    disk.rot_next("log/")
    file.append([bytes(20)])
    file.append([bytes(20)])
    assert file.read(0, 40).count(1) == 1
    assert file.read(20, 20) == bytes(20)
    disk.end_rot()
    assert file.read(0, 40) == bytes(40)
