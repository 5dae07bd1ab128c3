"""Small files on a real disk: replaced whole or not at all, and nothing is left beside them."""

import os
from collections.abc import Iterator
from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from penstock.real.disk import RealDisk
from penstock.real.world import RealWorld
from penstock.testing import Cluster
from penstock.world import DiskFailed, DiskFull


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[RealDisk]:
    world = RealWorld()
    yield world.disk(str(tmp_path))
    world.close()


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def fail(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, refuse)


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_replacement_that_fails_leaves_the_old_file_alone(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    disk.replace_now("checkpoint", b"old")
    fail(monkeypatch, call, ENOSPC)
    with pytest.raises(DiskFull):
        disk.replace_now("checkpoint", b"new")
    assert names(tmp_path) == ["checkpoint"]
    assert (tmp_path / "checkpoint").read_bytes() == b"old"


@pytest.mark.parametrize("call", ["write", "replace"])
def test_what_is_written_without_a_sync_leaves_the_old_file_alone_too(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    disk.put_now("checkpoint", b"old")
    fail(monkeypatch, call, EIO)
    with pytest.raises(DiskFailed):
        disk.put_now("checkpoint", b"new")
    assert names(tmp_path) == ["checkpoint"]
    assert (tmp_path / "checkpoint").read_bytes() == b"old"


def test_a_new_file_that_cannot_be_written_is_not_there(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "write", ENOSPC)
    with pytest.raises(DiskFull):
        disk.put_now("checkpoint", b"new")
    assert names(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"ol", b"old", b"old and more", b"new"])
def test_what_was_put_is_there(disk: RealDisk, tmp_path: Path, content: bytes) -> None:
    for each in (b"old", content):
        disk.put_now("checkpoint", each)
        assert (tmp_path / "checkpoint").read_bytes() == each
    assert names(tmp_path) == ["checkpoint"]


def test_what_a_kill_left_half_written_is_removed(disk: RealDisk, tmp_path: Path) -> None:
    (tmp_path / "checkpoint.17.tmp").write_bytes(b"half")
    disk.remove_leftovers_now()
    assert names(tmp_path) == []


def test_a_start_removes_what_a_kill_left_half_written(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster(data=data) as cluster:
        cluster.create_topic("orders")
        cluster.kill()
        for directory in (data, data / "orders-0", data / "__cluster_metadata-0"):
            (directory / "checkpoint.17.tmp").write_bytes(b"half")
        cluster.start()
        assert list(data.rglob("*.tmp")) == []


def test_files_of_others_are_not_removed(disk: RealDisk, tmp_path: Path) -> None:
    theirs = ["checkpoint", "checkpoint.tmp", "checkpoint.17.tmp.bak", "notes.x.tmp"]
    for name in theirs:
        (tmp_path / name).write_bytes(b"kept")
    (tmp_path / "directory.17.tmp").mkdir()
    disk.remove_leftovers_now()
    assert names(tmp_path) == sorted([*theirs, "directory.17.tmp"])
