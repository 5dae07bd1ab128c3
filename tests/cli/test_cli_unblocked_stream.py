"""Log lines for a reader that does not read: a node never waits for it."""

import fcntl
import json
import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from node_process import START_SECONDS_MAX, start_arguments

from penstock.cli.terminal.unblocked_stream import PIPE_BYTES, UnblockedStream

LINE = f"{'x' * 999}\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """Make a pipe without a reader, as its reading and its writing end."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with os.fdopen(writing, "w") as stream:
        yield reading, stream
    os.close(reading)


def read(descriptor: int) -> str:
    found = b""
    while True:
        try:
            found += os.read(descriptor, PIPE_BYTES)
        except BlockingIOError:
            return found.decode()


def test_lines_without_room_are_dropped_and_counted(pipe: tuple[int, TextIO]) -> None:
    reading, stream = pipe
    unblocked = UnblockedStream(stream)
    written = 2 * PIPE_BYTES // len(LINE)
    for _ in range(written):
        unblocked.write(LINE)
    kept = read(reading)
    assert kept == LINE * (len(kept) // len(LINE))
    unblocked.write("later\n")
    dropped = written - len(kept) // len(LINE)
    assert read(reading) == (
        f"warning: {dropped} log lines are lost: their reader was too slow\nlater\n"
    )


def test_a_line_with_too_little_room_is_finished_later(pipe: tuple[int, TextIO]) -> None:
    reading, stream = pipe
    unblocked = UnblockedStream(stream)
    long = f"{'y' * 3 * PIPE_BYTES}\n"
    unblocked.write(long)
    found = read(reading)
    assert 0 < len(found) < len(long)
    while len(found) < len(long):
        unblocked.flush()
        found += read(reading)
    assert found == long


def test_a_file_has_all_lines(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        unblocked = UnblockedStream(file)
        for _ in range(100):
            unblocked.write(LINE)
    assert (tmp_path / "log").read_text() == LINE * 100


def test_other_users_of_the_pipe_still_wait_for_room(pipe: tuple[int, TextIO]) -> None:
    _, stream = pipe
    UnblockedStream(stream)
    assert os.get_blocking(stream.fileno())


def test_a_node_starts_while_its_log_has_no_reader(
    tmp_path: Path, pipe: tuple[int, TextIO]
) -> None:
    _, unread = pipe
    os.write(unread.fileno(), bytes(PIPE_BYTES))
    arguments = [*start_arguments(tmp_path), "--log-level", "DEBUG"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=unread, text=True) as node:
        try:
            assert node.stdout is not None
            ready, _, _ = select.select([node.stdout], [], [], START_SECONDS_MAX)
            assert ready, "the node waits for the reader of its log"
            assert json.loads(node.stdout.readline())["event"] == "started"
        finally:
            node.kill()
