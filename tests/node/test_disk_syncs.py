"""What a real disk is asked to make durable: seen at the system calls, by the files they name."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_process import produce_all

from penstock.real.disk import RealDisk
from penstock.real.world import RealWorld
from penstock.testing import Cluster
from penstock.world import FileLost


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    world = RealWorld()
    yield world.disk(str(tmp_path))
    world.close()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """(call, path) of each sync from now on."""
    seen: list[tuple[str, str]] = []

    def watch(name: str) -> None:
        call = getattr(os, name)

        def watched(fd: int) -> None:
            seen.append((name, os.readlink(f"/proc/self/fd/{fd}")))
            call(fd)

        monkeypatch.setattr(os, name, watched)

    for name in ("fsync", "fdatasync"):
        watch(name)
    return seen


def directories(synced: list[tuple[str, str]], root: Path) -> set[str]:
    found = [Path(path) for call, path in synced if call == "fsync" and os.path.isdir(path)]
    return {str(path.relative_to(root)) for path in found}


def test_a_record_is_on_the_disk_before_it_is_acknowledged(
    tmp_path: Path, synced: list[tuple[str, str]]
) -> None:
    with Cluster({"log.durability": "fsync"}, data=tmp_path) as cluster:
        cluster.create_topic("t")
        synced.clear()
        assert produce_all(cluster.bootstrap, "t", [b"x"]) == [None]
        log = str(tmp_path / "t-0" / f"{0:020d}.log")
        assert ("fdatasync", log) in synced


def test_the_page_cache_is_enough_if_that_is_what_was_asked_for(
    tmp_path: Path, synced: list[tuple[str, str]]
) -> None:
    with Cluster({"log.durability": "page-cache"}, data=tmp_path) as cluster:
        cluster.create_topic("t")
        # The first answer waits for partition.metadata, and no later one for anything.
        assert produce_all(cluster.bootstrap, "t", [b"x"]) == [None]
        synced.clear()
        assert produce_all(cluster.bootstrap, "t", [b"x"]) == [None]
        assert [path for _, path in synced if "/t-0/" in path] == []


def test_a_new_files_name_is_synced_with_it_up_to_the_root(
    disk: RealDisk, tmp_path: Path, synced: list[tuple[str, str]]
) -> None:
    disk.make_directory("t-0")
    file = disk.open("t-0/a.log", create=True)
    file.append([b"x"])
    file.sync_now()
    assert ("fdatasync", str(tmp_path / "t-0" / "a.log")) in synced
    assert directories(synced, tmp_path) == {".", "t-0"}


def test_a_name_is_synced_once(
    disk: RealDisk, tmp_path: Path, synced: list[tuple[str, str]]
) -> None:
    file = disk.open("a.log", create=True)
    file.sync_now()
    synced.clear()
    file.sync_now()
    assert synced == [("fdatasync", str(tmp_path / "a.log"))]


def test_a_replaced_file_is_synced_before_its_name_and_the_name_after(
    disk: RealDisk, tmp_path: Path, synced: list[tuple[str, str]]
) -> None:
    disk.make_directory("t-0")
    disk.replace_now("t-0/checkpoint", b"x")
    aside = synced[0][1]
    assert aside.startswith(str(tmp_path / "t-0" / "checkpoint."))
    assert synced[1] == ("fsync", str(tmp_path / "t-0"))


def test_a_renamed_directory_keeps_its_new_name(
    disk: RealDisk, tmp_path: Path, synced: list[tuple[str, str]]
) -> None:
    disk.make_directory("t-0")
    disk.rename_now("t-0", "t-0.x-delete")
    assert directories(synced, tmp_path) == {"."}


def test_many_files_that_are_renamed_share_one_sync(
    disk: RealDisk, tmp_path: Path, synced: list[tuple[str, str]]
) -> None:
    disk.make_directory("t-0")
    names = [f"t-0/{number}.log" for number in range(20)]
    for name in names:
        disk.put_now(name, b"x")
    disk.rename_all_now([(name, f"{name}.deleted") for name in names])
    assert synced == [("fsync", str(tmp_path / "t-0"))]
    assert disk.list("t-0") == sorted(f"{number}.log.deleted" for number in range(20))


@pytest.mark.parametrize("parked", [False, True])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_lost_its_name_cannot_be_synced(
    disk: RealDisk, tmp_path: Path, parked: bool, replaced: bool
) -> None:
    file = disk.open("a.log", create=True)
    file.append([b"x"])
    if parked:
        file.park()
    (tmp_path / "a.log").rename(tmp_path / "b.log")
    if replaced:
        (tmp_path / "a.log").write_bytes(b"x")
    with pytest.raises(FileLost):
        file.sync_now()


@pytest.mark.parametrize("parts", [[b"new"], [b"n", b"ew"], [b"x" * 70_000, b"y"]])
def test_an_append_behind_foreign_bytes_fails_and_leaves_the_file_as_it_was(
    disk: RealDisk, tmp_path: Path, parts: list[bytes]
) -> None:
    file = disk.open("a.log", create=True)
    file.append([b"own"])
    with (tmp_path / "a.log").open("ab") as foreign:
        foreign.write(b"foreign")
    with pytest.raises(FileLost, match="has 10 bytes, and 3 were written"):
        file.append(parts)
    assert (tmp_path / "a.log").read_bytes() == b"ownforeign"
    assert file.size == 3
    assert file.read_now(0, file.size) == b"own"


def test_an_append_to_a_file_that_was_cut_fails_and_leaves_the_file_as_it_was(
    disk: RealDisk, tmp_path: Path
) -> None:
    file = disk.open("a.log", create=True)
    file.append([b"0123456789"])
    os.truncate(tmp_path / "a.log", 4)
    with pytest.raises(FileLost, match="has only 4 of its 10 bytes"):
        file.append([b"new"])
    assert (tmp_path / "a.log").read_bytes() == b"0123"
    with pytest.raises(FileLost):
        file.sync_now()


def test_a_failed_append_to_a_file_that_was_cut_adds_no_zeros(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("a.log", create=True)
    file.append([b"0123456789"])
    os.truncate(tmp_path / "a.log", 4)
    write = os.write

    def write_in_part(fd: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", _no_room)
        return write(fd, data[:3])

    monkeypatch.setattr(os, "write", write_in_part)
    with pytest.raises(FileLost, match="has only 4 of its 10 bytes"):
        file.append([b"new and more"])
    assert (tmp_path / "a.log").read_bytes() == b"0123"


def _no_room(_fd: int, _data: bytes) -> int:
    raise OSError(errno.ENOSPC, "no room")


def test_a_truncation_never_lengthens_a_file_that_was_cut(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open("a.log", create=True)
    file.append([b"0123456789"])
    os.truncate(tmp_path / "a.log", 4)
    with pytest.raises(FileLost, match="has only 4 of its 7 bytes"):
        file.truncate_now(7)
    assert (tmp_path / "a.log").read_bytes() == b"0123"


def test_foreign_bytes_at_the_end_of_an_idle_file_are_found(disk: RealDisk, tmp_path: Path) -> None:
    file = disk.open("a.log", create=True)
    file.append([b"own"])
    file.sync_now()
    file.verify(3)
    with (tmp_path / "a.log").open("ab") as foreign:
        foreign.write(b"foreign")
    for check in (file.sync_now, lambda: file.verify(3)):
        with pytest.raises(FileLost, match="Cutting it to 3 bytes"):
            check()


def test_own_bytes_that_are_just_appended_or_about_to_be_cut_are_not_foreign(
    disk: RealDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("a.log", create=True)
    write = os.write

    def checked_write(fd: int, data: bytes) -> int:
        written = write(fd, data)
        file.verify(0)  # as another thread would, before the loop counts the bytes
        return written

    monkeypatch.setattr(os, "write", checked_write)
    file.append([b"0123456789"])
    file.truncate(4, lambda _failure: None)  # the loop of this world does not run: no end comes
    file.verify(4)
    file.sync_now()


def test_a_preallocated_file_is_not_longer_than_its_bytes(disk: RealDisk) -> None:
    file = disk.open("a.log", create=True)
    file._reserve(1 << 20)
    file.append([b"own"])
    file.sync_now()
    file.verify(3)
