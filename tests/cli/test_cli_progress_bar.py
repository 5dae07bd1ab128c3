"""The bar of a recovery: on a terminal, after a moment, and gone when it is done."""

import io
from typing import NamedTuple

import pytest

from penstock.cli.terminal.progress_bar import (
    BarredStream,
    RecoveryBar,
    bar,
    bytes_text,
    recovery_line,
    seconds_text,
)


class Doing(NamedTuple):
    subject: str
    done: int
    total: int
    note: str


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Watched:
    """A bar under a clock that the test moves."""

    def __init__(self, stream: io.StringIO) -> None:
        self.now = 100.0
        self.out = stream
        self.said: list[str] = []
        self.stream = BarredStream(stream)
        self.bar = RecoveryBar(self.stream, self.said.append, lambda: self.now)

    def step(self, seconds: float, done: int, total: int = 10, scanned: int = 0) -> str:
        before = len(self.out.getvalue())
        self.now += seconds
        self.bar(Doing("t-0", done, total, f"{scanned} bytes scanned"))
        return self.out.getvalue()[before:]


def test_a_start_that_takes_a_moment_shows_nothing() -> None:
    watched = Watched(Terminal())
    for done in range(1, 11):
        assert watched.step(0.05, done) == ""
    assert watched.out.getvalue() == ""


def test_a_long_one_shows_how_far_it_is_and_what_is_left() -> None:
    watched = Watched(Terminal())
    watched.step(0, 1)
    shown = watched.step(2.0, 5, scanned=3 * 1024**3)
    assert "[############............]" in shown
    assert "5 of 10 partitions, 3.0 GB scanned, about 2 s left" in shown


def test_it_is_not_drawn_at_every_step() -> None:
    watched = Watched(Terminal())
    watched.step(0, 1)
    assert watched.step(2.0, 2) != ""
    assert watched.step(0.01, 3) == ""


def test_it_is_gone_when_it_is_done() -> None:
    watched = Watched(Terminal())
    watched.step(0, 1)
    watched.step(2.0, 5)
    assert watched.step(0.0, 10) == "\r\x1b[K"
    assert watched.step(0.0, 10) == ""


def test_log_lines_go_above_it() -> None:
    watched = Watched(Terminal())
    watched.step(0, 1)
    drawn = watched.step(2.0, 5).removeprefix("\r\x1b[K")
    before = len(watched.out.getvalue())
    watched.stream.write("a message\n")
    assert watched.out.getvalue()[before:] == f"\r\x1b[Ka message\n{drawn}"


def test_without_a_terminal_there_are_lines_now_and_then() -> None:
    watched = Watched(io.StringIO())
    watched.step(0, 1)
    for done in range(2, 8):
        watched.step(4.0, done)
    assert watched.out.getvalue() == ""
    assert len(watched.said) == 2
    assert watched.said[0].startswith("opening logs 4 of 10 partitions")


def test_before_the_first_is_done_nobody_knows_how_long_it_takes() -> None:
    assert recovery_line(Doing("t-0", 0, 5, "0 bytes scanned"), 3.0).endswith("0 B scanned")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (61, "1:01"), (3_725, "1:02:05")]
)
def test_times_are_told_as_people_do(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (5 * 1024**4, "5.0 TB")]
)
def test_sizes_are_told_as_people_do(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_a_bar_is_never_more_than_full() -> None:
    assert bar(3, 2, 4) == "[####]"
    assert bar(0, 0, 4) == "[....]"
