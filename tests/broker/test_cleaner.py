"""The cleaner of a node, in virtual time: which logs it cleans, when, and what it leaves."""

import logging
from typing import Any

import pytest
from cleaned_node import BACKOFF_MS, CleanedNode

from penstock.broker.cleaner import cleaner as cleaning_module
from penstock.broker.cleaner.dirty_ratio import DirtyRange, assess
from penstock.coordinator.records import EndMarker
from penstock.testing.sim import child_process as sim_apart

LATEST = {f"key-{key}": f"value-11-{'x' * 40}" for key in range(5)}


@pytest.fixture(autouse=True)
def _no_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here processes die only when a test wants it."""
    monkeypatch.setattr(sim_apart, "DEATH_CHANCE", 0.0)


def dirty_node(**settings: str) -> CleanedNode:
    node = CleanedNode({key.replace("_", "."): value for key, value in settings.items()})
    node.topic()
    node.fill("t")
    return node


def test_a_dirty_log_is_cleaned_and_keeps_the_last_value_of_each_key() -> None:
    node = CleanedNode({"log.cleaner.backoff.ms": "60000"})
    node.topic()
    node.fill("t")
    before = node.log().size
    node.tick(60)
    assert node.read() == LATEST
    assert node.log().size < before / 2
    assert node.cleaning.statistics.runs >= 1


def test_what_was_cleaned_is_written_down_as_kafka_does() -> None:
    node = dirty_node()
    node.tick()
    base = node.log().active.base_offset
    assert node.checkpoint() == ["0", "1", f"t 0 {base}"]


def test_old_files_go_after_their_delay() -> None:
    node = dirty_node()
    node.tick()
    node.settle(1_000)
    names = [name for name in node.files() if name.startswith("t-0/")]
    assert not [name for name in names if name.endswith((".deleted", ".swap", ".cleaned"))]
    assert len([name for name in names if name.endswith(".log")]) == len(node.log().closed) + 1


def test_a_log_that_is_not_dirty_enough_is_left_alone() -> None:
    node = CleanedNode()
    node.topic(min_cleanable_dirty_ratio="0.9")
    node.fill("t")
    node.tick()
    runs = node.cleaning.statistics.runs
    assert runs == 1  # all of it was dirty
    node.fill("t", rounds=2)
    node.tick(3)
    assert node.cleaning.statistics.runs == runs


def test_an_idle_partition_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    node = dirty_node()
    node.tick(2)
    looks: list[object] = []

    def looking(*arguments: object) -> DirtyRange:
        looks.append(arguments)
        return assess(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(cleaning_module, "assess", looking)
    node.tick(20)
    assert looks == []


def test_records_younger_than_the_lag_stay_and_are_cleaned_when_they_are_older() -> None:
    node = CleanedNode()
    node.topic(min_compaction_lag_ms="60000")
    node.fill("t")
    node.tick(3)
    assert node.cleaning.statistics.runs == 0
    node.settle(60_000)
    node.tick(2)
    assert node.cleaning.statistics.runs >= 1
    assert node.read() == LATEST


def test_a_record_is_cleaned_at_the_latest_after_the_largest_lag() -> None:
    node = CleanedNode()
    node.topic(min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="60000")
    node.fill("t")
    node.tick(3)
    assert node.cleaning.statistics.runs == 0
    node.settle(60_000)
    node.tick(2)
    assert node.cleaning.statistics.runs >= 1


def test_a_topic_that_becomes_compacted_is_cleaned() -> None:
    node = CleanedNode()
    node.topic(cleanup_policy="delete")
    node.fill("t")
    node.tick(3)
    assert node.cleaning.statistics.runs == 0
    node.alter("t", cleanup_policy="compact")
    node.tick(2)
    assert node.cleaning.statistics.runs == 1
    assert node.read() == LATEST


def test_a_topic_that_is_no_longer_compacted_is_not_cleaned() -> None:
    node = CleanedNode({"log.cleaner.backoff.ms": "5000"})
    node.topic()
    node.fill("t")
    runs = node.cleaning.statistics.runs
    node.alter("t", cleanup_policy="delete")
    node.fill("t")
    node.settle(20_000)
    assert node.cleaning.statistics.runs == runs
    assert not node.cleaning.runs


def test_the_settings_of_a_topic_hold_from_the_next_look_on() -> None:
    node = CleanedNode()
    node.topic(min_cleanable_dirty_ratio="1.0")
    node.fill("t")
    node.tick(3)
    assert node.cleaning.statistics.runs == 0
    node.alter("t", min_cleanable_dirty_ratio="0.1")
    node.tick(2)
    assert node.cleaning.statistics.runs == 1


def test_the_settings_of_the_cleaner_hold_at_once() -> None:
    node = CleanedNode({"log.cleaner.backoff.ms": "3600000"})
    node.topic()
    node.fill("t")
    node.settle(60_000)
    assert node.cleaning.statistics.runs == 0
    node.alter(None, log_cleaner_backoff_ms="100", log_cleaner_threads="2")
    node.settle(5_000)
    assert node.cleaning.statistics.runs >= 1
    assert node.cleaning.settings.threads == 2


def test_a_cleaner_that_is_turned_off_cleans_nothing() -> None:
    node = dirty_node(log_cleaner_enable="false")
    node.tick(5)
    assert node.cleaning.statistics.runs == 0


def test_tombstones_go_when_their_time_is_over() -> None:
    node = CleanedNode()
    node.topic(delete_retention_ms="60000")
    node.fill("t")
    node.put("t", "key-1", None)
    node.fill("t", rounds=8, keys=1)  # closes the segment
    node.tick(2)
    assert node.read()["key-1"] is None
    node.settle(60_000)
    node.fill("t", rounds=12, keys=1)
    node.tick(2)
    assert "key-1" not in node.read()


def test_old_segments_of_a_topic_with_both_policies_are_deleted_too() -> None:
    node = CleanedNode({"log.retention.check.interval.ms": "1000"})
    node.topic(cleanup_policy="compact,delete", retention_ms="60000")
    node.fill("t")
    node.tick(2)
    assert node.read() == LATEST
    node.settle(70_000)
    assert node.log().start_offset > 0
    assert node.read() == {}


def test_an_open_transaction_keeps_what_follows_from_being_cleaned() -> None:
    node = CleanedNode()
    node.topic()
    partition = node.partition()
    # As a transactional producer would, whose coordinator has vouched for it.
    partition.log.producers.ongoing[0] = 9
    node.fill("t")
    node.tick(3)
    assert node.cleaning.statistics.runs == 0
    del partition.log.producers.ongoing[0]
    node.tick(2)
    assert node.cleaning.statistics.runs >= 1


def test_several_logs_are_cleaned_at_a_time_if_there_are_threads() -> None:
    node = CleanedNode({"log.cleaner.threads": "2", "log.cleaner.backoff.ms": "30000"})
    for name in ("a", "b", "c"):
        node.topic(name)
        node.fill(name)
    node.simulation.run_until(lambda: len(node.cleaning.runs) == 2)
    subjects = {each.subject for each in node.cleaning.progress()}
    assert subjects == {"a-0", "b-0", "c-0"}
    node.tick()
    assert node.cleaning.statistics.runs == 3


def test_the_dirtiest_log_is_cleaned_first() -> None:
    node = CleanedNode({"log.cleaner.backoff.ms": "30000"})
    for name in ("less", "most", "little"):
        node.topic(name)
    node.fill("less", rounds=20)
    node.fill("little", rounds=30, keys=40)
    node.tick(60)
    for name, rounds in (("less", 5), ("most", 20), ("little", 3)):
        node.fill(name, rounds=rounds)
    node.settle(1)
    first: list[str] = []
    while len(first) < 3:
        node.simulation.step()
        first += [str(each) for each in node.cleaning.runs if str(each) not in first]
    assert first == ["most-0", "less-0", "little-0"]


def test_the_log_is_durable_before_a_cleaning_is_ordered(monkeypatch: pytest.MonkeyPatch) -> None:
    node = CleanedNode({"log.cleaner.backoff.ms": "30000"})
    node.topic()
    node.fill("t")
    node.settle(1_000)
    node.put("t", "key-0", "in the page cache alone")
    apart, order = node.world.child_processes, node.world.child_processes.run
    safe: list[bool] = []

    def ordering(*arguments: Any) -> Any:
        content = node.world.disks["data"]._names[node.log().active.file.path]
        safe.append(content.durable == content.data)
        return order(*arguments)

    monkeypatch.setattr(apart, "run", ordering)
    node.simulation.run_until(lambda: bool(safe))
    assert safe == [True]


def test_progress_tells_what_is_cleaned_and_how_far_it_is() -> None:
    node = dirty_node()
    node.simulation.run_until(lambda: bool(node.cleaning.runs))
    (progress,) = node.cleaning.progress()
    assert (progress.duty, progress.subject, progress.unit) == ("clean", "t-0", "bytes")
    assert 0 <= progress.done <= progress.total
    assert progress.total > 0


def test_statistics_add_up() -> None:
    node = dirty_node()
    node.tick()
    numbers = node.cleaning.statistics
    assert numbers.records_read > numbers.records_kept > 0
    assert numbers.bytes_read > numbers.bytes_written > 0
    assert 0 < numbers.cleaner_recopy_percent < 100
    assert numbers.uncleanable == 0
    assert numbers.time_since_last_run_ms(node.world.clock.wall_ms()) <= 2 * BACKOFF_MS


# -- trouble


def test_a_log_that_cannot_be_cleaned_is_said_once_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = CleanedNode({"log.cleaner.backoff.ms": "30000"})
    for name in ("good", "bad"):
        node.topic(name)
        node.fill(name)
    closed = node.log("bad").closed[1]
    node.world.disks["data"].corrupt(closed.path(".log"), 100, b"broken")
    with caplog.at_level(logging.ERROR, "penstock.cleaning"):
        node.tick(90)
    said = [each for each in caplog.messages if "cannot be compacted" in each]
    assert len(said) == 1
    assert "bad-0" in said[0]
    assert node.cleaning.statistics.uncleanable == 1
    assert list(node.cleaning.uncleanable) == [node.partition("bad")]
    assert node.read("good") == LATEST
    assert not [name for name in node.files() if name.endswith(".cleaned")]


def test_a_process_that_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sim_apart, "DEATH_CHANCE", 1.0)
    node = dirty_node()
    node.simulation.run_until(lambda: node.cleaning.statistics.process_deaths == 1)
    monkeypatch.setattr(sim_apart, "DEATH_CHANCE", 0.0)
    node.tick(3)
    assert node.cleaning.statistics.runs >= 1
    assert node.read() == LATEST


def test_a_log_over_which_every_process_dies_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sim_apart, "DEATH_CHANCE", 1.0)
    node = dirty_node()
    with caplog.at_level(logging.ERROR, "penstock.cleaning"):
        node.tick(10)
    assert node.cleaning.statistics.process_deaths == 3
    assert node.cleaning.statistics.uncleanable == 1
    assert node.read() == LATEST
    monkeypatch.setattr(sim_apart, "DEATH_CHANCE", 0.0)
    node.alter("t", delete_retention_ms="1000")
    node.tick(3)
    assert node.cleaning.statistics.uncleanable == 0
    assert node.cleaning.statistics.runs >= 1


def test_a_topic_that_is_deleted_while_it_is_cleaned_leaves_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for turns in range(0, 60, 6):
        node = dirty_node(log_cleaner_backoff_ms="30000")
        node.simulation.run_until(lambda node=node: bool(node.cleaning.runs))  # type: ignore[misc]
        for _ in range(turns):
            node.simulation.step()
        with caplog.at_level(logging.WARNING):
            node.delete("t")
            node.settle(5_000)
        assert not node.cleaning.runs
        assert not [line for line in node.checkpoint() if line.startswith("t ")]
        assert not [name for name in node.files() if name.startswith("t-0")]
        assert node.broker.replicas.directories[0].failed is None
    assert [each for each in caplog.messages if "cannot" in each] == []


def test_a_topic_made_anew_under_the_name_is_dirty_from_its_start() -> None:
    node = dirty_node()
    node.tick()
    node.delete("t")
    node.settle(1_000)
    node.topic()
    node.fill("t")
    node.tick(2)
    assert node.read() == LATEST
    assert node.cleaning.offsets.get(node.partition()) == node.log().active.base_offset


def test_a_disk_that_fails_under_the_cleaner_takes_its_directory_offline() -> None:
    node = CleanedNode({"log.dirs": "data,other", "log.cleaner.backoff.ms": "30000"})
    node.topic("a")
    node.topic("b")
    for name in ("a", "b"):
        node.fill(name)
    node.simulation.run_until(lambda: bool(node.cleaning.runs))
    (cleaned,) = node.cleaning.runs
    cleaned.directory.disk.fail_write(0, within=f"{cleaned}/")  # type: ignore[attr-defined]
    node.simulation.run_until(lambda: cleaned.directory.failed is not None)
    node.tick(60)
    (other,) = [each for each in node.broker.replicas.all() if each is not cleaned]
    assert node.read(other.topic) == LATEST


def test_a_full_disk_stops_a_cleaning_and_a_later_one_goes_on() -> None:
    node = dirty_node()
    node.simulation.run_until(lambda: bool(node.cleaning.runs))
    node.world.disks["data"].fail_write(0, full=True, within="t-0/0")
    node.tick(0)
    assert node.cleaning.statistics.runs == 0
    node.tick(3)
    assert node.cleaning.statistics.runs >= 1
    assert node.read() == LATEST


def test_a_stop_ends_a_cleaning_at_once_and_the_next_start_finds_a_whole_log() -> None:
    for turns in range(0, 90, 6):
        node = dirty_node(log_cleaner_backoff_ms="30000")
        node.simulation.run_until(lambda node=node: bool(node.cleaning.runs))  # type: ignore[misc]
        for _ in range(turns):
            node.simulation.step()
        before = node.simulation.now_ms
        disks = node.stop()
        assert node.simulation.now_ms - before < 3_000
        again = CleanedNode(disks=disks)
        assert again.read() == LATEST
        again.tick(2)
        assert again.read() == LATEST
        assert not [name for name in again.files() if name.endswith((".cleaned", ".swap"))]


def test_a_start_goes_on_where_the_last_cleaning_ended() -> None:
    node = dirty_node()
    node.tick(2)
    again = CleanedNode(disks=node.stop())
    again.tick(3)
    assert again.cleaning.statistics.runs == 0
    assert again.cleaning.offsets.get(again.partition()) == again.log().active.base_offset


def test_a_checkpoint_beyond_the_end_is_not_believed() -> None:
    node = dirty_node(log_cleaner_enable="false")
    disks = node.stop()
    disks["data"].put("cleaner-offset-checkpoint", b"0\n1\nt 0 1000000\n")
    again = CleanedNode(disks=disks)
    again.tick(2)
    assert again.cleaning.statistics.runs == 1
    assert again.read() == LATEST


def test_a_checkpoint_below_the_start_is_moved_to_it(caplog: pytest.LogCaptureFixture) -> None:
    node = dirty_node()
    node.tick()
    node.partition().delete_before(node.log().end_offset - 1)
    node.fill("t")
    with caplog.at_level(logging.WARNING, "penstock.cleaning"):
        node.tick(2)
    assert [each for each in caplog.messages if "below the start" in each]
    assert node.read() == LATEST


def test_a_log_that_was_truncated_below_what_is_cleaned_is_cleaned_anew() -> None:
    node = dirty_node()
    node.tick()
    log, partition = node.log(), node.partition()
    cleaned_to = node.cleaning.offsets.get(partition)
    assert cleaned_to
    truncated: list[object] = []
    now_ms = node.world.clock.wall_ms()
    node.cleaning.pause(partition, lambda: log.truncate_to(1, now_ms, truncated.append))
    node.simulation.run_until(lambda: bool(truncated))
    assert log.end_offset < cleaned_to
    node.cleaning.resume(partition)
    assert node.cleaning.offsets.get(partition) is None


def test_a_record_without_a_key_is_dropped_told_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = CleanedNode({"log.cleaner.backoff.ms": "5000"})
    node.topic(cleanup_policy="delete")
    for _ in range(3):
        node.put("t", None, "no key")
    node.fill("t")
    node.alter("t", cleanup_policy="compact")
    with caplog.at_level(logging.WARNING, "penstock.cleaning"):
        node.tick(10)
    assert node.cleaning.statistics.keyless_dropped == 3
    assert [each for each in caplog.messages if "t-0 had 3 records without a key" in each]


def test_a_paused_log_is_not_cleaned_until_it_is_resumed() -> None:
    node = CleanedNode({"log.cleaner.backoff.ms": "30000"})
    node.topic()
    node.fill("t")
    node.simulation.run_until(lambda: bool(node.cleaning.runs))
    for _ in range(20):
        node.simulation.step()
    paused: list[bool] = []
    node.cleaning.pause(node.partition(), lambda: paused.append(node.log().swapping))
    node.simulation.run_until(lambda: bool(paused))
    assert paused == [False]
    assert not node.cleaning.runs
    node.settle(90_000)
    assert node.cleaning.statistics.runs == 0
    node.cleaning.resume(node.partition())
    node.tick(60)
    assert node.cleaning.statistics.runs >= 1


def test_retention_that_comes_between_makes_the_cleaner_begin_again() -> None:
    for turns in range(0, 80, 8):
        node = dirty_node(log_cleaner_backoff_ms="30000")
        node.simulation.run_until(lambda node=node: bool(node.cleaning.runs))  # type: ignore[misc]
        for _ in range(turns):
            node.simulation.step()
        log = node.log()
        node.partition().delete_before(log.closed[0].end_offset)
        log.delete_old_segments(node.world.clock.wall_ms(), log.end_offset, lambda _paths: None)
        node.tick(120)
        assert node.read() == LATEST
        assert node.broker.replicas.directories[0].failed is None


def test_an_idempotent_producer_is_known_after_its_records_were_compacted_away() -> None:
    node = CleanedNode()
    node.topic()
    for sequence in range(40):
        node.put("t", "same", f"{sequence}-{'x' * 60}", producer=7, sequence=sequence)
    node.fill("t")
    node.tick(2)
    assert "same" in node.read()
    disks = node.stop()
    again = CleanedNode(disks=disks)
    assert again.log().producers.states[7][1] == 39
    again.put("t", "same", "next", producer=7, sequence=40)
    again.put("t", "same", "next", producer=7, sequence=40)  # a duplicate gets its old offset
    assert again.read()["same"] == "next"


def test_a_marker_is_a_record_like_others_to_readers_of_a_compacted_log() -> None:
    node = CleanedNode()
    node.topic()
    node.fill("t", rounds=3)
    now_ms = node.world.clock.wall_ms()
    node.partition().append_marker(EndMarker(9, 0, 0, True), now_ms)
    node.fill("t")
    node.tick(2)
    assert node.read() == LATEST
