"""The simulated disk keeps its own promises."""

from collections.abc import Callable

import pytest
from log_builder import ignore

from penstock.testing.sim.disk import SECTOR_BYTES, MemoryDisk, SimDisk
from penstock.world import Cold, Disk, DiskFailed, DiskFull


def test_it_is_a_disk() -> None:
    disk: Disk = SimDisk()
    assert disk.list() == []


def test_synced_bytes_survive_every_crash_and_others_some() -> None:
    kept: set[int] = set()
    for seed in range(200):
        disk = SimDisk(seed)
        disk.make_directory("d")
        file = disk.open("d/f", create=True)
        file.append([b"safe" * 200])
        file.sync_now()
        file.append([b"gone" * 500])
        data = disk.crash().files()["d/f"]
        assert data.startswith(b"safe" * 200)
        kept.add(len(data))
    assert {800, 2_800} <= kept
    assert len(kept) > 10


def test_a_torn_write_loses_whole_sectors() -> None:
    found: set[str] = set()
    for seed in range(200):
        disk = SimDisk(seed)
        file = disk.open("f", create=True)
        file.sync_now()
        file.append([b"x" * SECTOR_BYTES * 4])
        data = disk.crash().files()["f"]
        for start in range(0, len(data) - SECTOR_BYTES + 1, SECTOR_BYTES):
            sector = data[start : start + SECTOR_BYTES]
            if sector == b"x" * SECTOR_BYTES:
                found.add("written")
            elif sector == bytes(SECTOR_BYTES):
                found.add("zeros")
            else:
                found.add("garbage")
    assert found == {"written", "zeros", "garbage"}


def test_a_name_that_was_not_synced_may_be_lost_and_later_names_with_it() -> None:
    found: set[tuple[str, ...]] = set()
    for seed in range(100):
        disk = SimDisk(seed)
        for name in "abc":
            disk.open(name, create=True)
        found.add(tuple(disk.crash().files()))
    assert found == {(), ("a",), ("a", "b"), ("a", "b", "c")}


def test_a_kill_loses_work_but_no_bytes() -> None:
    disk = SimDisk(5)
    file = disk.open("f", create=True)
    file.append([b"unsynced"])
    disk.replace("g", b"1", ignore)
    disk.kill()
    assert disk.files()["f"] == b"unsynced"
    assert disk.run_callbacks() == 0


def test_a_replace_is_all_or_nothing() -> None:
    found: set[bytes] = set()
    for seed in range(50):
        disk = SimDisk(seed)
        disk.put("f", b"old")
        disk.replace("f", b"new", ignore)
        assert disk.files()["f"] == b"old"
        found.add(disk.crash().files()["f"])
    assert found == {b"old", b"new"}


def test_work_waits_for_its_callbacks() -> None:
    disk = SimDisk()
    disk.put("d/f", b"data")
    done: list[object] = []
    disk.rename("d", "e", done.append)
    disk.remove("e/f", done.append)
    assert done == []
    assert disk.run_callbacks() == 2
    assert done == [None, None]
    assert disk.files() == {}
    assert disk.is_directory("e")


def test_injected_failures_come_once() -> None:
    disk = SimDisk()
    file = disk.open("f", create=True)
    disk.fail_write(1, full=True)
    file.append([b"a"])
    with pytest.raises(DiskFull):
        file.append([b"b"])
    file.append([b"c"])
    assert file.read(0, 10) == b"ac"
    disk.fail_sync(0)
    failures: list[DiskFailed | None] = []
    file.sync(failures.append)
    file.sync(failures.append)
    disk.run_callbacks()
    assert isinstance(failures[0], DiskFailed)
    assert failures[1] is None


def test_cold_bytes_must_be_warmed_and_appended_ones_are_warm() -> None:
    disk = SimDisk(cold=True)
    disk.put("f", b"x" * 10_000)
    file = disk.open("f")
    with pytest.raises(Cold) as cold:
        file.read(5_000, 100)
    cold.value.file.warm(cold.value.position, cold.value.size, ignore)
    disk.run_callbacks()
    assert file.read(5_000, 100) == b"x" * 100
    with pytest.raises(Cold):
        file.probe(0, 10_000)
    new = disk.open("new", create=True)
    new.append([b"y" * 9_000])
    assert new.read(4_000, 5_000) == b"y" * 5_000


def test_truncation_is_seen_at_once_but_survives_only_when_synced() -> None:
    found: set[int] = set()
    for seed in range(60):
        disk = SimDisk(seed)
        disk.put("f", b"z" * 1_000)
        file = disk.open("f")
        file.truncate(100, ignore)
        assert file.size == 100
        found.add(len(disk.crash().files()["f"]))
    assert {100, 1_000} <= found


def test_the_memory_disk_runs_its_callbacks_soon() -> None:
    later: list[Callable[[], None]] = []
    disk = MemoryDisk(soon=later.append)
    done: list[object] = []
    disk.replace("f", b"1", done.append)
    assert done == []
    for call in later:
        call()
    assert done == [None]
    assert disk.lock(".lock")
    assert not disk.lock(".lock")
    disk.unlock()
    assert disk.lock(".lock")


def test_of_many_names_a_crash_changes_the_first_ones() -> None:
    counts = set()
    names = [f"d/{number}" for number in range(6)]
    for seed in range(200):
        disk = SimDisk(seed)
        for name in names:
            disk.put(name, b"x")
        pairs = [(name, f"{name}.new") for name in names]
        disk.offload_all([lambda disk=disk, pairs=pairs: disk.rename_all_now(pairs)], _ignore)  # type: ignore[misc]
        after = disk.crash()
        changed = [f"{name}.new" in after.files() for name in names]
        assert changed == sorted(changed, reverse=True)
        assert len(after.files()) == len(names)
        counts.add(sum(changed))
    assert counts == set(range(7))


def _ignore(_failure: DiskFailed | None) -> None:
    """Nobody is there any more to hear of it."""


def test_a_sync_that_ends_late_takes_nothing_back_that_a_newer_one_made_durable() -> None:
    disk = SimDisk(1)
    file = disk.open("file", create=True)
    file.append([b"old"])
    early = file.size
    file.append([b" and new"])
    file.sync_now()
    file.sync_to(early)
    assert disk.crash().files() == {"file": b"old and new"}
