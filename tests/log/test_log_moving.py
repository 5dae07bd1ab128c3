"""The way of a copy through a log's segments: in order, complete, and each looked at once."""

from types import SimpleNamespace
from typing import Any

from penstock.log import moving
from penstock.log.moving import Copy
from penstock.testing.sim.disk import MemoryDisk


class Counted(list[Any]):
    """Counts how often somebody takes an element."""

    taken = 0

    def __getitem__(self, place: Any) -> Any:
        self.taken += 1
        return super().__getitem__(place)

    def __iter__(self) -> Any:
        self.taken += len(self)
        return super().__iter__()


def segment(base: int, size: int) -> SimpleNamespace:
    return SimpleNamespace(base_offset=base, end_offset=base + 10, size=size, memory=None)


def log_of(count: int, size: int) -> Any:
    closed = Counted(segment(10 * place, size) for place in range(count))
    active = SimpleNamespace(base_offset=10 * count, size=size)
    return SimpleNamespace(
        closed=closed,
        active=active,
        start_offset=0,
        end_offset=10 * count + 10,
        disk=MemoryDisk(),
        directory="t-0",
    )


def walk(copy: Copy) -> list[tuple[int, int, int]]:
    found = []
    while (piece := copy.next_piece()) is not None:
        assert copy.missing_bytes > 0
        found.append((piece.base_offset, piece.position, piece.size))
        copy.copied(piece)
    return found


def test_every_byte_of_every_segment_is_copied_once_and_in_order() -> None:
    size = 2 * moving.PIECE_BYTES + 7
    copy = Copy(log_of(5, size), MemoryDisk(), "t-0.x-future")
    found = walk(copy)
    pieces = [(0, moving.PIECE_BYTES), (moving.PIECE_BYTES, moving.PIECE_BYTES), (size - 7, 7)]
    assert found == [(10 * place, *piece) for place in range(6) for piece in pieces]
    assert (copy.missing_bytes, copy.end_offset) == (0, 60)


def test_a_copy_does_not_go_through_all_segments_for_each_piece() -> None:
    log = log_of(1_000, moving.PIECE_BYTES)
    walk(Copy(log, MemoryDisk(), "t-0.x-future"))
    assert log.closed.taken <= 20 * len(log.closed)


def test_segments_that_are_closed_meanwhile_are_copied_with_what_they_have_since() -> None:
    log = log_of(2, 100)
    copy = Copy(log, MemoryDisk(), "t-0.x-future")
    walk(copy)
    log.closed.append(segment(20, 150))
    log.active = SimpleNamespace(base_offset=30, size=40)
    assert copy.missing_bytes == 90
    assert walk(copy) == [(20, 100, 50), (30, 0, 40)]


def test_a_copy_that_starts_over_copies_all_of_it_again() -> None:
    log = log_of(3, 100)
    copy = Copy(log, MemoryDisk(), "t-0.x-future")
    walk(copy)
    copy.reset()
    assert copy.missing_bytes == 400
    assert len(walk(copy)) == 4
