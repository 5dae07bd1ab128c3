"""Small files of a directory are written one at a time, and the newest content stays."""

import threading
from pathlib import Path

from penstock.broker.storage.log_dir import LogDirectory
from penstock.real.world import RealWorld
from penstock.testing.sim.disk import SimDisk


def directory(disk: SimDisk) -> LogDirectory:
    return LogDirectory(
        disk,
        bytes(16),
        waits_for_sync=False,
        holds_metadata=False,
        on_failed=lambda _: None,
        touch=lambda: None,
    )


def test_the_newest_content_of_a_file_stays() -> None:
    disk = SimDisk(faults=False)
    files = directory(disk)
    for content in (b"1", b"2", b"3"):
        files.store("checkpoint", content)
    disk.run_callbacks()
    assert disk.files() == {"checkpoint": b"3"}


def test_what_came_while_a_file_was_written_is_written_once() -> None:
    disk = SimDisk(faults=False)
    files = directory(disk)
    for content in (b"1", b"2", b"3"):
        files.store("checkpoint", content)
    assert disk.run_callbacks() == 2
    assert not files.storing


def test_two_writers_of_one_name_do_not_trip_over_each_other(tmp_path: Path) -> None:
    world = RealWorld()
    disk = world.disk(str(tmp_path))
    problems: list[BaseException] = []

    def write(content: bytes) -> None:
        try:
            for _ in range(100):
                disk.replace_now("checkpoint", content)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=write, args=(each,)) for each in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.close()
    assert problems == []
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
