"""The way of a copy through a log's segments: in order, complete, and each looked at once."""

from types import SimpleNamespace
from typing import Any

from penstock.log import future_log
from penstock.log.future_log import FutureLog
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


def walk(copy: FutureLog) -> list[tuple[int, int, int]]:
    found = []
    while (piece := copy.next_piece()) is not None:
        assert copy.missing_bytes > 0
        found.append((piece.base_offset, piece.position, piece.size))
        copy.copied(piece)
    return found


def test_every_byte_of_every_segment_is_copied_once_and_in_order() -> None:
    size = 2 * future_log.PIECE_BYTES + 7
    copy = FutureLog(log_of(5, size), MemoryDisk(), "t-0.x-future")
    found = walk(copy)
    pieces = [
        (0, future_log.PIECE_BYTES),
        (future_log.PIECE_BYTES, future_log.PIECE_BYTES),
        (size - 7, 7),
    ]
    assert found == [(10 * place, *piece) for place in range(6) for piece in pieces]
    assert (copy.missing_bytes, copy.end_offset) == (0, 60)


def test_a_copy_does_not_go_through_all_segments_for_each_piece() -> None:
    log = log_of(1_000, future_log.PIECE_BYTES)
    walk(FutureLog(log, MemoryDisk(), "t-0.x-future"))
    assert log.closed.taken <= 20 * len(log.closed)


def test_segments_that_are_closed_meanwhile_are_copied_with_what_they_have_since() -> None:
    log = log_of(2, 100)
    copy = FutureLog(log, MemoryDisk(), "t-0.x-future")
    walk(copy)
    log.closed.append(segment(20, 150))
    log.active = SimpleNamespace(base_offset=30, size=40)
    assert copy.missing_bytes == 90
    assert walk(copy) == [(20, 100, 50), (30, 0, 40)]


def test_a_copy_that_starts_over_copies_all_of_it_again() -> None:
    log = log_of(3, 100)
    copy = FutureLog(log, MemoryDisk(), "t-0.x-future")
    walk(copy)
    copy.reset()
    assert copy.missing_bytes == 400
    assert len(walk(copy)) == 4


def forget(log: Any, count: int) -> None:
    """As retention does: the log gets a new list."""
    log.closed = Counted(log.closed[count:])
    log.start_offset = log.closed[0].base_offset


def test_what_the_log_forgets_before_it_was_copied_is_not_copied() -> None:
    log = log_of(4, 100)
    copy = FutureLog(log, MemoryDisk(), "t-0.x-future")
    forget(log, 2)
    assert copy.missing_bytes == 300
    assert [base for base, *_ in walk(copy)] == [20, 30, 40]
    assert copy.end_offset == 50


def test_what_the_log_forgets_after_it_was_copied_counts_no_more() -> None:
    log = log_of(4, 100)
    copy = FutureLog(log, MemoryDisk(), "t-0.x-future")
    for _ in range(3):
        piece = copy.next_piece()
        assert piece is not None
        copy.copied(piece)
    forget(log, 2)
    assert (copy.missing_bytes, copy.copied_bytes) == (200, 100)
    assert [base for base, *_ in walk(copy)] == [30, 40]


def test_a_piece_of_a_segment_that_was_forgotten_meanwhile_does_not_count() -> None:
    log = log_of(2, 100)
    copy = FutureLog(log, MemoryDisk(), "t-0.x-future")
    piece = copy.next_piece()
    assert piece is not None
    forget(log, 1)
    assert not copy.still_wants(piece)
    copy.copied(piece)
    assert (copy.missing_bytes, copy.copied_bytes) == (200, 0)


def test_nothing_is_settled_while_a_segment_is_only_in_memory() -> None:
    log = log_of(2, 100)
    log.busy = False
    log.closed[1].memory = object()
    copy = FutureLog(log, MemoryDisk(), "t-0.x-future")
    walk(copy)
    assert not copy.settled
    log.closed[1].memory = None
    assert copy.settled
