"""Files that share descriptors: who gives one back, when, and what happens to a file meanwhile."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.real.descriptors import Descriptors
from penstock.real.disk import RealDisk
from penstock.real.file import RealFile
from penstock.real.world import RealWorld
from penstock.world import DiskFailed, FileLost

OPEN_MAX = 4


@pytest.fixture
def world() -> Iterator[RealWorld]:
    world = RealWorld()
    yield world
    world.close()


@pytest.fixture
def disk(world: RealWorld, tmp_path: Path) -> RealDisk:
    return RealDisk(str(tmp_path), world.workers, Descriptors(OPEN_MAX))


def make(disk: RealDisk, count: int) -> list[RealFile]:
    """Files as new partitions have them: nobody uses them yet."""
    files = [disk.open(f"{number}.log", create=True) for number in range(count)]
    for file in files:
        file.park()
    return files


def settle(world: RealWorld) -> None:
    """Until no worker has anything to do."""
    while not world.workers.idle:
        world.loop.turn()


def test_a_parked_file_takes_appends_and_gives_them_back(disk: RealDisk) -> None:
    (file,) = make(disk, 1)
    file.append([b"one"])
    file.park()
    assert file.parked
    file.append([b"two"])
    assert file.read(0, 6) == b"onetwo"


def test_files_beyond_the_limit_give_their_descriptors_back(
    disk: RealDisk, world: RealWorld
) -> None:
    files = make(disk, 20)
    for file in files:
        file.append([b"x"])
        file.sync_now()
    settle(world)
    assert sum(not file.parked for file in files) <= OPEN_MAX + 1


def test_the_files_in_use_keep_theirs(disk: RealDisk) -> None:
    files = make(disk, 20)
    busy = files[0]
    busy.append([b"x"])
    busy.sync_now()
    descriptor = busy.fileno()
    for file in files[1:]:
        file.fileno()
        busy.append([b"x"])
        busy.sync_now()
    assert busy.fileno() == descriptor


def test_what_was_not_synced_is_when_the_descriptor_goes(
    disk: RealDisk, world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    sync = os.fdatasync

    def watched(fd: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", watched)
    files = make(disk, 20)
    for file in files:
        file.append([b"x"])
        settle(world)
    parked = {file.path for file in files if file.parked}
    assert parked
    assert parked <= set(synced)


def test_a_sync_that_fails_meanwhile_is_told_to_the_next_user(
    disk: RealDisk, world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    files = make(disk, 20)
    for file in files:
        file.append([b"x"])
        settle(world)
    failed = next(file for file in files if file.parked)
    with pytest.raises(DiskFailed, match="Input/output error"):
        failed.append([b"y"])


def test_a_file_stays_open_while_another_thread_works_on_it(
    disk: RealDisk, world: RealWorld
) -> None:
    (file,) = make(disk, 1)
    file.append([b"x"])
    file.sync(lambda _failure: None)
    file.park()
    assert not file.parked
    settle(world)
    file.park()
    assert file.parked


def test_a_parked_file_can_be_synced(disk: RealDisk, world: RealWorld) -> None:
    (file,) = make(disk, 1)
    file.append([b"x"])
    file.park()
    heard: list[DiskFailed | None] = []
    disk.sync_files([file], heard.append)
    settle(world)
    assert heard == [None]
    assert file.parked


def test_another_file_in_its_place_is_not_taken_for_it(disk: RealDisk, tmp_path: Path) -> None:
    (file,) = make(disk, 1)
    (tmp_path / "other").write_bytes(b"other")
    os.replace(tmp_path / "other", tmp_path / "0.log")
    with pytest.raises(FileLost, match="replaced the file"):
        file.append([b"x"])
