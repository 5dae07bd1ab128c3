"""Pools of threads: work of one kind, or for one disk, holds up no other."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.real.disk import RealDisk
from penstock.real.world import RealWorld
from penstock.world import DiskFailed

WAIT_MS_MAX = 20_000
MANY = 20  # more than any pool has threads


@pytest.fixture
def world() -> Iterator[RealWorld]:
    made = RealWorld()
    yield made
    made.close()


@pytest.fixture
def stuck() -> Iterator[Callable[[], None]]:
    """Work that ends with the test. Made after `world`, so that it ends before its threads do."""
    over = threading.Event()

    def wait() -> None:
        over.wait(WAIT_MS_MAX / 1000)

    yield wait
    over.set()


def turn_until(world: RealWorld, there: list[Any]) -> None:
    late: list[bool] = []
    timer = world.loop.at(world.loop.mono_ms() + WAIT_MS_MAX, lambda: late.append(True))
    while not there and not late:
        world.loop.turn()
    timer.cancel()
    assert there, "it did not happen in time"


def sync(world: RealWorld, disk: RealDisk) -> None:
    """A file is written and synced."""
    disk.make_directory("")
    file = disk.open("file", create=True)
    file.append([b"data"])
    done: list[DiskFailed | None] = []
    disk.sync_files([file], done.append)
    turn_until(world, done)
    assert done == [None]
    file.close()


def nothing(_result: object, _failure: BaseException | None) -> None:
    pass


def test_a_sync_does_not_wait_for_work_that_keeps_processors_busy(
    world: RealWorld, stuck: Callable[[], None], tmp_path: Path
) -> None:
    for _ in range(MANY):
        world.workers.compute(stuck, (), nothing)
    sync(world, world.disk(str(tmp_path)))


def test_a_sync_does_not_wait_for_a_disk_that_hangs(
    world: RealWorld, stuck: Callable[[], None], tmp_path: Path
) -> None:
    hung, good = world.disk(str(tmp_path / "hung")), world.disk(str(tmp_path / "good"))
    hung.offload_all([stuck] * MANY, lambda _failure: None)
    sync(world, good)


def test_work_that_waits_for_no_disk_goes_on_beside_one_that_hangs(
    world: RealWorld, stuck: Callable[[], None], tmp_path: Path
) -> None:
    world.disk(str(tmp_path)).offload_all([stuck] * MANY, lambda _failure: None)
    done: list[tuple[int, BaseException | None]] = []
    world.workers.run(lambda: 42, (), lambda result, failure: done.append((result, failure)))
    turn_until(world, done)
    assert done == [(42, None)]


def test_kinds_stay_apart_with_a_single_thread_each(
    world: RealWorld, stuck: Callable[[], None], tmp_path: Path
) -> None:
    world.workers.use(1)
    world.workers.compute(stuck, (), nothing)
    world.workers.run(stuck, (), nothing)
    sync(world, world.disk(str(tmp_path)))


def test_computing_leaves_processors_to_others(world: RealWorld, stuck: Callable[[], None]) -> None:
    before = world.workers.threads
    for _ in range(MANY):
        world.workers.compute(stuck, (), nothing)
    assert world.workers.threads - before <= max(1, (os.cpu_count() or 1) // 2)


def test_two_looks_at_one_directory_share_its_threads(world: RealWorld, tmp_path: Path) -> None:
    workers = world.workers
    assert workers.of_disk(str(tmp_path)) is workers.of_disk(str(tmp_path))
