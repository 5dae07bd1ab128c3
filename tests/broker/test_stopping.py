"""How a node stops: what it leaves for the next start, also when its disk does not let it."""

import logging
from collections.abc import Callable, Sequence

import pytest
from simulated_node import PRODUCE, Bench, produce, replies

from penstock.broker.partitions import partition_creation
from penstock.broker.startup.startup import SIZES
from penstock.node.shutdown import STOP_MS_MAX
from penstock.testing.sim.world import DISK_MS_MAX, WorldDisk
from penstock.wire.messages import k19_create_topics as k19
from penstock.world import DiskFailed, Done


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
        assert "All that was written is synced" in bench.node.failure
        assert ends(disks) == [1, 1]


def test_a_removed_partition_does_not_keep_the_others_from_a_clean_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = written()
    bench.world.disks["data"].remove_now("t-0")
    disks = bench.stop()
    assert bench.node.failure is None
    assert "t-0 is offline and takes no more records" in caplog.text
    again = Bench(disks=disks)
    topic_id = again.broker.image.topics["t"].topic_id
    assert again.broker.replicas.is_offline(topic_id, 0)
    assert again.broker.find("t", 1).log.recovery.scanned_bytes == 0


def test_damage_beside_a_removed_partition_is_found_at_the_next_start() -> None:
    """Replaced by an older copy: the stop measures nothing, and its sizes tell."""
    bench = written()
    disk = bench.world.disks["data"]
    segment = f"t-1/{0:020d}.log"
    disk.take(segment)
    disk.put(segment, b"")
    disk.remove_now("t-0")
    again = Bench(disks=bench.stop())
    topic_id = again.broker.image.topics["t"].topic_id
    assert [again.broker.replicas.is_offline(topic_id, each) for each in (0, 1)] == [True, True]


def test_a_stop_that_cannot_sync_promises_nothing() -> None:
    bench = written()
    disk = bench.world.disks["data"]

    def refuse(path: str) -> None:
        raise DiskFailed(path)

    disk.before_sync = refuse  # type: ignore[method-assign]
    bench.stop()
    assert bench.node.failure is not None
    assert "may not be durable" in bench.node.failure


def ask_for_topic(bench: Bench, partitions: int, name: str = "t") -> None:
    """As one that the node itself needs: nobody waits for an answer, and so for the partitions."""
    topic = k19.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = k19.CreateTopicsRequest(topics=[topic])
    bench.turn(lambda: bench.broker.metadata.submit(request, 7, lambda _answer: None))


def closed(disks: dict[str, WorldDisk]) -> list[str]:
    """The partitions that the word of a clean stop is about."""
    _, _, *lines = disks["data"].files()[SIZES].decode().splitlines()
    return [line.split()[0] for line in lines]


@pytest.mark.parametrize("steps", range(0, 60, 2))
def test_partitions_that_are_made_while_a_node_stops_are_no_worry_to_the_next_start(
    steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(seed=steps)
    bench.settle(2_000)
    ask_for_topic(bench, 100)
    for _ in range(steps):
        bench.simulation.step()
    disks = bench.stop()
    assert bench.node.failure is None
    made = [name for name in disks["data"].list() if name.startswith("t-")]
    assert sorted(closed(disks)) == made
    with caplog.at_level(logging.WARNING):
        bench = Bench(disks=disks)
        bench.settle(1_000)
    assert [each for each in caplog.messages if "t-" in each] == []
    if "t" in bench.broker.image.topics:
        assert len(bench.broker.replicas.by_name["t"]) == 100


def test_a_topic_that_comes_while_the_logs_are_closed_is_made_by_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = written()
    bench.settle(2_000)
    disk, world = bench.world.disks["data"], bench.world
    really = disk.sync_everything_now
    closing: list[bool] = []

    def sync_everything_now() -> None:
        if not closing:
            closing.append(True)
            ask_for_topic(bench, 3, "u")
            world.simulation.run_for(1_000)
        really()

    monkeypatch.setattr(disk, "sync_everything_now", sync_everything_now)
    disks = bench.stop()
    monkeypatch.undo()
    assert "u" in bench.broker.image.topics
    assert bench.node.failure is None
    assert not disk.exists("u-0")
    assert closed(disks) == ["t-0", "t-1"]
    bench = Bench(disks=disks)
    assert len(bench.broker.replicas.by_name["u"]) == 3


def test_partitions_that_are_made_after_the_logs_were_closed_are_no_worry_either(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The disk hangs, and a stop waits for nobody that long."""
    bench = Bench()
    bench.settle(2_000)
    disk, world = bench.world.disks["data"], bench.world
    really = disk.offload_all

    def offload_all(works: Sequence[Callable[[], None]], done: Done) -> None:
        makes = any(
            isinstance(getattr(each, "__self__", None), partition_creation._FileCreation)
            for each in works
        )
        # The logs are closed when that is over, and the word that they are is not said yet.
        wait_ms = STOP_MS_MAX + 2 * DISK_MS_MAX if makes else 0.0
        world.simulation.schedule(wait_ms, world, lambda: really(works, done), "hangs")

    monkeypatch.setattr(disk, "offload_all", offload_all)
    ask_for_topic(bench, 3)
    bench.simulation.run_until(lambda: "t" in bench.broker.image.topics)
    bench.settle(20)
    disks = bench.stop()
    monkeypatch.undo()
    assert bench.node.failure is None
    assert disks["data"].exists("t-0")
    assert closed(disks) == []
    with caplog.at_level(logging.WARNING):
        bench = Bench(disks=disks)
    assert [each for each in caplog.messages if "t-" in each] == []
    assert len(bench.broker.replicas.by_name["t"]) == 3
