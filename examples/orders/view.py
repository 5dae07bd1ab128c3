"""The view of a running pipeline: redrawn in place on a terminal, lines of text elsewhere."""

import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol, TextIO

from examples.orders.shop import COUNTRIES, Cell, Total
from examples.orders.watch import Snapshot

WINDOWS_SHOWN = 8
LINE_EVERY_SECONDS = 3.0

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
CLEAR_LINE, CLEAR_BELOW = "\x1b[2K", "\x1b[0J"
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


class View(Protocol):
    def show(self, seen: Snapshot) -> None: ...

    def end(self) -> None: ...


def view_for(stream: TextIO) -> View:
    return LiveView(stream) if stream.isatty() else LineView(stream)


class WaitLine:
    """One line about what is waited for, and how long: in place on a terminal, now and then
    elsewhere."""

    def __init__(self, stream: TextIO, what: str) -> None:
        self._stream, self._what = stream, what
        self._began = time.monotonic()
        self._told_at = -LINE_EVERY_SECONDS

    def show(self, message: str) -> None:
        seconds = time.monotonic() - self._began
        line = f"{self._what}, {seconds:.0f} s: Spark is at {message.lower()!r}"
        if self._stream.isatty():
            self._stream.write(f"\r{CLEAR_LINE}{line}")
        elif seconds - self._told_at >= LINE_EVERY_SECONDS:
            self._told_at = seconds
            print(line, file=self._stream)
        self._stream.flush()

    def end(self) -> None:
        """Leave a terminal's line as it was."""
        if self._stream.isatty():
            self._stream.write(f"\r{CLEAR_LINE}")
            self._stream.flush()


class LiveView:
    """The same lines again and again, each in its place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = 0

    def show(self, seen: Snapshot) -> None:
        size = shutil.get_terminal_size()
        # One line stays free: writing into the last one would scroll.
        lines = block(seen)[: max(1, size.lines - 1)]
        text = HIDE_CURSOR + (f"\x1b[{self._drawn}A" if self._drawn else "")
        for number, line in enumerate(lines):
            style = BOLD if number == 0 else ""
            text += f"{CLEAR_LINE}{style}{line[: size.columns - 1]}{PLAIN}\n"
        self._stream.write(text + CLEAR_BELOW)
        self._stream.flush()
        self._drawn = len(lines)

    def end(self) -> None:
        self._stream.write(SHOW_CURSOR)
        self._stream.flush()


class LineView:
    """A line now and then, and one per window that has come out."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told_at = -LINE_EVERY_SECONDS
        self._told: set[tuple[str, ...]] = set()

    def show(self, seen: Snapshot) -> None:
        rows = table(seen.results)
        for row in rows:
            if row not in self._told:
                self._told.add(row)
                print(f"        {row_text(row)}", file=self._stream)
        if seen.seconds - self._told_at >= LINE_EVERY_SECONDS:
            self._told_at = seen.seconds
            lag = ", ".join(f"{group} {lag_text(each)}" for group, each in seen.lag.items())
            print(
                f"{seen.seconds:4.0f} s  {seen.phase}: {seen.orders_written:,} orders, lag {lag}",
                file=self._stream,
            )
        self._stream.flush()

    def end(self) -> None:
        self._stream.flush()


def block(seen: Snapshot) -> list[str]:
    """All lines of the live view."""
    batch = "-" if seen.batch is None else str(seen.batch)
    lines = [
        f"{seen.seconds:4.0f} s  {seen.phase}",
        "",
        f"  orders written   {seen.orders_written:>9,}",
        f"  batch            {batch:>9}   {seen.rows_per_second:,.0f} rows/s"
        f"   watermark {clock(seen.watermark)}",
    ]
    lines += [f"  lag {lag_text(lag):>9}  in group {group}" for group, lag in seen.lag.items()]
    lines += ["", "  " + row_text(("window", *COUNTRIES, "orders"))]
    rows = table(seen.results)[-WINDOWS_SHOWN:]
    lines += ["  " + row_text(row) for row in rows]
    lines += [""] * (WINDOWS_SHOWN - len(rows))
    return lines


def table(results: Sequence[tuple[Cell, Total]]) -> list[tuple[str, ...]]:
    """Revenue by window and country, in the shop's money, and all orders of the window."""
    windows: dict[str, dict[str, Total]] = defaultdict(dict)
    for cell, total in results:
        windows[cell.window_start][cell.country] = total
    return [
        (
            clock(start),
            *(money(found[each].revenue_cents) if each in found else "" for each in COUNTRIES),
            str(sum(each.orders for each in found.values())),
        )
        for start, found in sorted(windows.items())
    ]


def row_text(row: Sequence[str]) -> str:
    return f"{row[0]:<10}" + "".join(f"{each:>12}" for each in row[1:])


def lag_text(lag: int | None) -> str:
    return "-" if lag is None else f"{lag:,}"


def money(cents: int) -> str:
    return f"{cents // 100:,}.{cents % 100:02}"


def clock(moment: str) -> str:
    """The time of day in `2026-01-01T09:00:00Z`."""
    return moment[11:19] if moment > "1971" else "-"
