"""The marks at both ends of a move: what is written is read, and nonsense makes nobody count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.directory import MOVED_FROM_FILE, MOVING_TO_FILE
from penstock.log.future_log_markers import (
    FutureMark,
    SourceMark,
    clear_source_mark,
    drop_future_marks,
    read_future_marks,
    read_source_mark,
    write_future_marks,
    write_source_mark,
)
from penstock.testing.sim.disk import SimDisk
from penstock.world import DiskFailed

WORDS = st.text("abcXYZ019_-", min_size=1, max_size=22)
ARRIVALS = st.builds(FutureMark, WORDS, WORDS, st.integers(0, 2**62), st.booleans())


def disk_with() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("t-0")
    return disk


@given(WORDS, WORDS)
def test_a_departure_is_read_as_it_was_written(target_id: str, token: str) -> None:
    disk = disk_with()
    write_source_mark(disk, "t-0", SourceMark(target_id, token))
    assert read_source_mark(disk, "t-0") == SourceMark(target_id, token)
    clear_source_mark(disk, "t-0")
    assert read_source_mark(disk.crash(), "t-0") is None


@given(st.lists(ARRIVALS, min_size=1, unique=True))
def test_arrivals_are_read_as_they_were_written(arrivals: list[FutureMark]) -> None:
    disk = disk_with()
    write_future_marks(disk, "t-0", arrivals)
    assert read_future_marks(disk, "t-0") == arrivals
    drop_future_marks(disk, "t-0", arrivals[:1])
    assert read_future_marks(disk, "t-0") == arrivals[1:]
    drop_future_marks(disk, "t-0", arrivals)
    assert not disk.exists(f"t-0/{MOVED_FROM_FILE}")


@given(st.binary())
def test_nonsense_never_decides_anything(data: bytes) -> None:
    disk = disk_with()
    for name in (MOVED_FROM_FILE, MOVING_TO_FILE):
        disk.put(f"t-0/{name}", data)
    read_source_mark(disk, "t-0")
    assert not any(each.decided for each in read_future_marks(disk, "t-0"))


def test_what_is_not_there_is_no_mark() -> None:
    disk = disk_with()
    clear_source_mark(disk, "t-0")
    drop_future_marks(disk, "t-0", [])
    assert (read_source_mark(disk, "t-0"), read_future_marks(disk, "t-0")) == (None, [])


def test_an_original_does_not_count_before_its_mark_is_gone_for_certain() -> None:
    disk = disk_with()
    write_source_mark(disk, "t-0", SourceMark("target", "token"))

    def rename_now(source: str, target: str) -> None:
        raise DiskFailed(f"injected: {source} to {target}")

    disk.rename_now = rename_now  # type: ignore[method-assign]
    with pytest.raises(DiskFailed):
        clear_source_mark(disk, "t-0")
