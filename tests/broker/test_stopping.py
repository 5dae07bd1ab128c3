"""How a node stops: what it leaves for the next start, also when its disk does not let it."""

import pytest
from simulated_node import PRODUCE, Bench, produce, replies

from penstock.testing.sim.world import WorldDisk
from penstock.world import DiskFailed


def written() -> Bench:
    bench = Bench()
    bench.create_topic("t", 2)
    client, heard = bench.connect()
    for partition in (0, 1):
        bench.receive(client, bench.frame(PRODUCE, produce("t", b"kept", partition)))
        bench.settle()
    assert [
        each.responses[0].partition_responses[0].error_code
        for each in replies(heard, [PRODUCE, PRODUCE])
    ] == [0, 0]
    client.closed()
    return bench


def ends(disks: dict[str, WorldDisk]) -> list[int]:
    bench = Bench(disks=disks)
    return [bench.broker.find("t", each).leader.high_watermark for each in (0, 1)]


def writes_of_a_stop() -> int:
    bench = written()
    disk, count = bench.world.disks["data"], 0
    before = disk.before_write

    def counted(path: str) -> None:
        nonlocal count
        count += 1
        before(path)

    disk.before_write = counted  # type: ignore[method-assign]
    bench.stop()
    return count


def test_a_stop_that_wrote_everything_is_clean() -> None:
    bench = written()
    disks = bench.stop()
    assert bench.node.failure is None
    assert ends(disks) == [1, 1]


@pytest.mark.parametrize("full", [True, False])
def test_a_disk_that_refuses_any_write_of_a_stop_costs_no_record(full: bool) -> None:
    for refused in range(writes_of_a_stop()):
        bench = written()
        bench.world.disks["data"].fail_write(refused, full=full)
        disks = bench.stop()
        assert bench.node.failure is not None
        assert "data was not stopped cleanly" in bench.node.failure
        assert "Nothing that was acknowledged is lost" in bench.node.failure
        assert ends(disks) == [1, 1]


def test_a_stop_that_cannot_sync_promises_nothing() -> None:
    bench = written()
    disk = bench.world.disks["data"]

    def refuse(path: str) -> None:
        raise DiskFailed(path)

    disk.before_sync = refuse  # type: ignore[method-assign]
    bench.stop()
    assert bench.node.failure is not None
    assert "may not be durable" in bench.node.failure
