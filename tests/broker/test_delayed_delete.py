"""Files that wait for their removal: seen while they wait, gone when it is time."""

import pytest
from simulated_node import PRODUCE, Bench, produce

from penstock.broker.progress import TaskProgress
from penstock.config.broker import BrokerConfig
from penstock.node import PenstockNode
from penstock.testing.sim.world import SimWorld
from penstock.world import DiskFailed


def duties(bench: Bench) -> list[TaskProgress]:
    return [each for reporter in bench.broker.reporters for each in reporter.progress()]


def test_a_deletion_is_told_until_it_is_done() -> None:
    bench = Bench({"log.segment.delete.delay.ms": "1000"})
    hosting = bench.broker.replicas
    directory = hosting.directories[0]
    for name in ("a-0.deleted", "b-0.deleted"):
        directory.disk.make_directory(name)
        hosting.remove_later(directory, name)
    (told,) = duties(bench)
    assert told[:5] == ("delete", "data", 0, 2, "files")
    assert told.since_ms == bench.world.clock.wall_ms()
    bench.simulation.run_until(lambda: not duties(bench))
    assert hosting.deletions.removed == 2
    assert hosting.deletions.waiting == 0
    assert not directory.disk.exists("a-0.deleted")


def test_what_comes_later_joins_those_that_wait() -> None:
    bench = Bench()
    hosting = bench.broker.replicas
    directory = hosting.directories[0]
    for name, delay_ms in (("gone-0.deleted", 100), ("gone-1.deleted", 5_000)):
        directory.disk.make_directory(name)
        hosting.remove_later(directory, name, delay_ms)
    bench.simulation.run_until(lambda: hosting.deletions.removed == 1)
    (told,) = duties(bench)
    assert (told.done, told.total) == (1, 2)


def test_a_directory_that_fails_leaves_nothing_waiting() -> None:
    bench = Bench()
    hosting = bench.broker.replicas
    hosting.remove_later(hosting.directories[0], "a-0.deleted", 100)
    hosting.directories[0].failed = DiskFailed("by design")
    bench.settle(1_000)
    assert hosting.deletions.waiting == 0
    assert hosting.deletions.removed == 0


def test_what_is_not_there_is_said_and_does_not_count_as_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    hosting = bench.broker.replicas
    hosting.remove_later(hosting.directories[0], "a-0.deleted", 100)
    bench.settle(1_000)
    assert hosting.deletions.waiting == 0
    assert hosting.deletions.removed == 0
    assert "data/a-0.deleted was to be removed and is not there" in caplog.text


def test_a_name_that_is_used_again_waits_from_then_on(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    hosting = bench.broker.replicas
    directory = hosting.directories[0]
    directory.disk.make_directory("a-0.deleted")
    hosting.remove_later(directory, "a-0.deleted", 1_000)
    bench.settle(600)
    hosting.remove_later(directory, "a-0.deleted", 1_000)  # another one was renamed over it
    bench.settle(800)
    assert directory.disk.exists("a-0.deleted")
    bench.settle(800)
    assert not directory.disk.exists("a-0.deleted")
    assert hosting.deletions.waiting == 0
    assert hosting.deletions.removed == 1
    assert "is not there" not in caplog.text


def test_nothing_is_said_of_files_that_went_with_their_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    hosting = bench.broker.replicas
    hosting.remove_later(hosting.directories[0], f"gone-0/{0:020d}.log.deleted", 100)
    bench.settle(1_000)
    assert hosting.deletions.waiting == 0
    assert "was to be removed" not in caplog.text


def test_an_idle_node_has_no_duty() -> None:
    assert duties(Bench()) == []


def test_the_opening_of_logs_is_told_step_by_step() -> None:
    bench = Bench()
    bench.create_topic("t", 3)
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"x" * 1_000)))
    bench.simulation.run_until(lambda: bool(peer.sent))
    bench.world.kill()
    told: list[TaskProgress] = []
    ready: list[bool] = []
    world = SimWorld(bench.simulation, disks=bench.world.disks_after_kill())
    config = BrokerConfig.of({"listeners": "PLAINTEXT://node:9092", "log.dirs": "data"})
    node = PenstockNode(world, config, watch=told.append)
    node.start(lambda: ready.append(True), lambda: None)
    bench.simulation.run_until(lambda: bool(ready))
    assert {each.duty for each in told} == {"recover"}
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert told[-1].done == told[-1].total == 3
    assert node.broker is not None
    assert node.broker.recovery_progress.scanned_bytes > 1_000  # the stop was not clean
    assert list(node.broker.recovery_progress.progress()) == []
