"""The demo's view: in place on a terminal, lines elsewhere."""

import io
from dataclasses import replace

import pytest

from examples.orders.shop import Cell, Total
from examples.orders.view import LineView, LiveView, WaitLine, block, view_for
from examples.orders.watch import Snapshot

SEEN = Snapshot(
    phase="orders are written",
    seconds=4.0,
    orders_written=1234,
    lag={"revenue": 56, "archive": None},
    batch=3,
    rows_per_second=400.0,
    watermark="2026-01-01T09:01:35.000Z",
    results=[(Cell("2026-01-01T09:00:00Z", "DE"), Total(2, 123_456))],
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lag_watermark_and_results_are_shown() -> None:
    shown = "\n".join(block(SEEN))
    for text in ("1,234", "56  in group revenue", "-  in group archive", "09:01:35", "1,234.56"):
        assert text in shown


def test_a_terminal_is_redrawn_in_place() -> None:
    terminal = Terminal()
    view = view_for(terminal)
    assert isinstance(view, LiveView)
    view.show(SEEN)
    lines = terminal.getvalue().count("\n")
    terminal.truncate(0)
    view.show(SEEN)
    assert f"\x1b[{lines}A" in terminal.getvalue()
    assert terminal.getvalue().count("\n") == lines
    view.end()
    assert terminal.getvalue().endswith("\x1b[?25h")


def test_a_small_terminal_gets_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "5")
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    LiveView(terminal).show(SEEN)
    assert terminal.getvalue().count("\n") == 4
    assert "in group" not in terminal.getvalue()


def test_elsewhere_each_window_is_told_once_and_nothing_is_redrawn() -> None:
    stream = io.StringIO()
    view = view_for(stream)
    assert isinstance(view, LineView)
    view.show(SEEN)
    view.show(replace(SEEN, seconds=4.5))
    view.show(replace(SEEN, seconds=9.0))
    assert stream.getvalue().count("1,234.56") == 1
    assert stream.getvalue().count("orders are written") == 2
    assert "\x1b" not in stream.getvalue()


def test_a_window_that_comes_in_parts_is_told_when_it_has_changed() -> None:
    stream = io.StringIO()
    view = LineView(stream)
    view.show(SEEN)
    more = (Cell("2026-01-01T09:00:00Z", "FR"), Total(1, 7_00))
    view.show(replace(SEEN, results=[*SEEN.results, more]))
    assert stream.getvalue().count("09:00:00") == 2


def test_what_is_waited_for_is_one_line_of_a_terminal_and_goes() -> None:
    terminal = Terminal()
    wait = WaitLine(terminal, "the query revenue starts")
    wait.show("Initializing sources")
    wait.end()
    assert (
        "the query revenue starts, 0 s: Spark is at 'initializing sources'" in terminal.getvalue()
    )
    assert "\n" not in terminal.getvalue() and terminal.getvalue().endswith("\r\x1b[2K")


def test_what_is_waited_for_is_told_elsewhere_now_and_then() -> None:
    stream = io.StringIO()
    wait = WaitLine(stream, "the query revenue starts")
    for _ in range(3):
        wait.show("Initializing sources")
    wait.end()
    assert stream.getvalue().count("\n") == 1
