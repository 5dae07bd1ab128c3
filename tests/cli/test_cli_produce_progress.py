"""The line at the bottom of a long produce."""

import io

from penstock.cli.produce.progress import ProduceProgress, line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_nothing_is_drawn_on_what_is_no_terminal() -> None:
    out, clock = io.StringIO(), Clock()
    progress = ProduceProgress(out, [None], clock)
    clock.now_s = 60.0
    progress.show(100, 0)
    progress.end()
    assert out.getvalue() == ""


def test_what_is_done_in_a_moment_has_no_line() -> None:
    out, clock = Terminal(), Clock()
    progress = ProduceProgress(out, [None], clock)
    clock.now_s = 0.5
    progress.show(100, 0)
    progress.end()
    assert out.getvalue() == ""


def test_a_long_run_is_shown_now_and_then_and_taken_away() -> None:
    out, clock = Terminal(), Clock()
    progress = ProduceProgress(out, [None], clock)
    progress.read_bytes = 2048
    clock.now_s = 2.0
    progress.show(1_500, 500)
    assert out.getvalue() == "\r\x1b[K1,000 records, 2.0 KB read, 500 records/s"
    clock.now_s = 2.01
    progress.show(9_999, 0)
    assert "9,999" not in out.getvalue()
    progress.end()
    assert out.getvalue().endswith("\r\x1b[K")


def test_of_files_it_is_known_how_much_is_left() -> None:
    said = line(1_000, 0, 25, 100, took=10.0)
    assert said.startswith("[######..................] ")
    assert said.endswith("about 30 s left")
    assert ProduceProgress(Terminal(), [5, None])._total_bytes is None
    assert ProduceProgress(Terminal(), [5, 6])._total_bytes == 11
