"""Figures of the performance tests: latencies, a throughput limit, dates as text."""

import re
import time
from collections.abc import Callable
from datetime import datetime

from penstock.cli.kafka.framework.runner import CommandRejected

MEGABYTE = 1024 * 1024
SAMPLES_MAX = 500_000
PERCENTILES = (0.5, 0.95, 0.99, 0.999)
PAUSE_SECONDS_MIN = 0.002  # shorter sleeps are inaccurate


class Latencies:
    """Latencies of records; prints a line per interval and a total."""

    def __init__(self, expected: int, report_ms: int | None) -> None:
        self._report_seconds = None if report_ms is None else report_ms / 1000
        self._every = max(1, expected // min(expected, SAMPLES_MAX))
        self._samples: list[int] = []
        self._begun = self._window_begun = time.monotonic()
        self._count = self._bytes = self._sum = self._most = 0
        self._window = (0, 0, 0, 0)

    def add(self, latency_ms: int, size: int) -> None:
        if self._count % self._every == 0:
            self._samples.append(latency_ms)
        self._count += 1
        self._bytes += size
        self._sum += latency_ms
        self._most = max(self._most, latency_ms)
        count, total_bytes, total, most = self._window
        self._window = (count + 1, total_bytes + size, total + latency_ms, max(most, latency_ms))
        if self._report_seconds is not None and self._count % 100 == 0:
            now = time.monotonic()
            if now - self._window_begun >= self._report_seconds:
                self._print_window(now)

    def _print_window(self, now: float) -> None:
        count, total_bytes, total, most = self._window
        seconds = now - self._window_begun
        print(
            f"{count} records sent, {count / seconds:.1f} records/sec "
            f"({total_bytes / seconds / MEGABYTE:.2f} MB/sec), {total / count:.1f} ms avg latency, "
            f"{most:.1f} ms max latency.",
            flush=True,
        )
        self._window = (0, 0, 0, 0)
        self._window_begun = now

    def total(self, what: str = "records sent") -> str:
        seconds = max(time.monotonic() - self._begun, 1e-3)
        samples = sorted(self._samples) or [0]
        points = [
            samples[min(int(share * len(samples)), len(samples) - 1)] for share in PERCENTILES
        ]
        average = self._sum / self._count if self._count else 0.0
        return (
            f"{self._count} {what}, {self._count / seconds:.6f} records/sec "
            f"({self._bytes / seconds / MEGABYTE:.2f} MB/sec), {average:.2f} ms avg latency, "
            f"{float(self._most):.2f} ms max latency, {points[0]} ms 50th, {points[1]} ms 95th, "
            f"{points[2]} ms 99th, {points[3]} ms 99.9th."
        )


class ThroughputLimit:
    """Limits a loop to so many rounds per second; a negative rate has no limit."""

    def __init__(self, per_second: float) -> None:
        if per_second == 0:
            raise CommandRejected("--throughput 0 would never send anything; -1 has no limit")
        self._per_second = per_second
        self._begun = time.monotonic()

    def wait(self, done: int, meanwhile: Callable[[float], object]) -> None:
        """Wait until the next round is due; `meanwhile` is called with the seconds left."""
        if self._per_second <= 0:
            return
        ahead = done / self._per_second - (time.monotonic() - self._begun)
        if ahead >= PAUSE_SECONDS_MIN:
            until = time.monotonic() + ahead
            while (left := until - time.monotonic()) > 0:
                meanwhile(left)
                time.sleep(min(PAUSE_SECONDS_MIN, left))


# A placeholder for milliseconds, for which strftime has no letter.
_MILLISECONDS = "\ue000"
# Java's letters for dates, and Python's.
_FIELDS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "a": "%p",
    "Z": "%z",
}
_TOKEN = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']")


class DateFormat:
    """A format of times by a pattern of java.text.SimpleDateFormat."""

    def __init__(self, pattern: str) -> None:
        self._parts: list[str] = []
        for token in _TOKEN.finditer(pattern):
            text = token[0]
            if token[1] is not None:
                self._parts.append((token[1] or "'").replace("%", "%%"))
            elif text == "SSS":
                self._parts.append(_MILLISECONDS)
            elif text in _FIELDS:
                self._parts.append(_FIELDS[text])
            elif text.isalpha():
                known = ", ".join(["SSS", *_FIELDS])
                raise CommandRejected(f"--date-format {pattern}: {text} is none of {known}")
            else:
                self._parts.append(text.replace("%", "%%"))

    def __call__(self, seconds: float) -> str:
        when = datetime.fromtimestamp(seconds).astimezone()
        text = when.strftime("".join(self._parts))
        return text.replace(_MILLISECONDS, f"{when.microsecond // 1000:03}")
