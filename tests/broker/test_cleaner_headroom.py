"""The cleaner on a disk that is nearly full: the reserve is not its to spend, and it says so."""

import logging

import pytest
from cleaned_node import BACKOFF_MS, CleanedNode

from penstock.testing.sim import child_process as sim_apart
from penstock.testing.sim.child_process import RehearsedDisk
from penstock.testing.sim.world import WorldDisk
from penstock.world import DiskFull

RESERVE = 1_000_000
KEPT = 2 * RESERVE  # from the cleaner: so much again is for those who produce meanwhile
LATEST = {f"key-{key}": f"value-11-{'x' * 40}" for key in range(5)}


@pytest.fixture(autouse=True)
def _no_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim_apart, "DEATH_CHANCE", 0.0)


def filled_node(*topics: str, **settings: str) -> CleanedNode:
    """Dirty logs, and a cleaner that has not looked at them yet."""
    node = CleanedNode(
        {
            "log.disk.reserve.bytes": str(RESERVE),
            "log.cleaner.backoff.ms": "30000",
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )
    for name in topics:
        node.topic(name)
        node.fill(name)
    assert node.cleaning.statistics.runs == 0
    return node


def disk_of(node: CleanedNode) -> WorldDisk:
    return node.world.disks["data"]


def leave(node: CleanedNode, free_bytes: int) -> None:
    disk_of(node).free = free_bytes
    node.settle(2_000)


def cleaned_files(node: CleanedNode) -> list[str]:
    return [name for name in node.files() if name.endswith(".cleaned")]


def test_a_cleaning_that_may_not_fit_above_the_reserve_does_not_begin() -> None:
    node = filled_node("t")
    leave(node, RESERVE + 100)
    node.settle(120_000)
    numbers = node.cleaning.statistics
    assert (numbers.runs, numbers.aborted_runs) == (0, 0)


def test_what_producers_may_need_before_the_next_look_is_not_the_cleaners_either() -> None:
    node = filled_node("t")
    leave(node, KEPT + 100)
    node.settle(120_000)
    assert (node.cleaning.statistics.runs, node.cleaning.statistics.aborted_runs) == (0, 0)


def test_a_cleaning_meets_its_bound_by_itself_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two looks of the node at the disk, and with producers beside it."""
    node = filled_node("t")
    disk = disk_of(node)
    really = disk.free_bytes
    monkeypatch.setattr(RehearsedDisk, "free_bytes", lambda _self: KEPT + 10)
    with caplog.at_level(logging.WARNING, "penstock.cleaning"):
        node.settle(31_000)
        node.simulation.run_until(lambda: not node.cleaning.runs)
    assert node.cleaning.statistics.aborted_runs == 1
    assert "tried again later" in caplog.text
    assert cleaned_files(node) == []
    monkeypatch.setattr(RehearsedDisk, "free_bytes", lambda _self: really())
    node.tick(60)
    assert node.read() == LATEST


def test_that_it_waits_for_room_is_said_once_and_in_the_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = filled_node("t", "u")
    with caplog.at_level(logging.WARNING, "penstock.cleaning"):
        leave(node, RESERVE + 100)
        node.settle(120_000)
    (said,) = [each for each in caplog.messages if "waits for room" in each]
    assert "log.disk.reserve.bytes" in said
    notes = [each.note for each in node.cleaning.progress()]
    assert len(notes) == 2
    assert all("too little room" in note for note in notes)


def test_it_is_cleaned_when_there_is_room_again() -> None:
    node = filled_node("t")
    leave(node, RESERVE + 100)
    node.settle(60_000)
    leave(node, 2 * KEPT)
    node.tick(60)
    assert node.cleaning.statistics.runs >= 1
    assert node.read() == LATEST


def test_a_small_log_is_cleaned_while_a_large_one_waits_for_room() -> None:
    node = filled_node("small")
    node.topic("large")
    node.fill("large", rounds=40)
    leave(node, KEPT + node.log("small").size + 1_000)
    node.settle(60_000)
    assert node.read("small") == LATEST
    assert [each.subject for each in node.cleaning.progress()] == ["large-0"]


def test_two_cleanings_do_not_count_on_the_same_room() -> None:
    node = filled_node("a", "b", log_cleaner_threads="2")
    leave(node, KEPT + int(1.5 * node.log("a").size))
    node.simulation.run_until(lambda: bool(node.cleaning.runs))
    while node.cleaning.runs:
        assert len(node.cleaning.runs) == 1
        node.simulation.step()


def test_a_cleaning_under_way_stops_at_the_reserve_and_removes_its_files() -> None:
    node = filled_node("t")
    leave(node, KEPT + node.log().size + 1_000)
    node.simulation.run_until(lambda: bool(cleaned_files(node)))
    disk_of(node).free = RESERVE - 1
    node.simulation.run_until(lambda: not node.cleaning.runs)
    assert node.cleaning.statistics.runs == 0
    assert cleaned_files(node) == []
    node.settle(60_000)
    assert node.cleaning.statistics.aborted_runs == 1


def test_logs_that_fail_in_turn_each_wait_for_the_backoff(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = filled_node("a", "b")

    def full(path: str) -> None:
        if ".cleaned" in path:
            raise DiskFull(f"no room for {path}")

    monkeypatch.setattr(disk_of(node), "before_write", full)
    with caplog.at_level(logging.WARNING, "penstock.cleaning"):
        node.alter(None, log_cleaner_backoff_ms=str(BACKOFF_MS))
        node.settle(12 * BACKOFF_MS)
    assert 2 <= node.cleaning.statistics.aborted_runs <= 26
    said = [each for each in caplog.messages if "tried again" in each]
    assert len(said) == 2, said


def test_a_short_backoff_does_not_make_a_failing_log_burn_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = filled_node("a")

    def full(path: str) -> None:
        if ".cleaned" in path:
            raise DiskFull(f"no room for {path}")

    monkeypatch.setattr(disk_of(node), "before_write", full)
    node.alter(None, log_cleaner_backoff_ms="10")
    node.settle(10_000)
    assert 2 <= node.cleaning.statistics.aborted_runs <= 11
