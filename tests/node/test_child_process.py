"""Work in another process: what it says is heard, its end is noticed, and it never outlives us."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from child_process_loop import WAIT_MS_MAX, Room

from penstock.real.child_process import NICENESS, RealChildProcesses
from penstock.world import DiskFull, ProcessDied

HERE = Path(__file__).parent


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("group_access", "mode"), [(False, 0o600), (True, 0o640)])
def test_a_file_of_a_child_has_the_mode_of_its_node(
    room: Room, group_access: bool, mode: int
) -> None:
    room.apart = RealChildProcesses(room.loop, room.workers, group_access)
    assert room.result("make_file", "made") == (None, None)
    assert (room.root / "made").stat().st_mode & 0o777 == mode


def test_what_the_work_says_is_heard_in_order_before_its_end(room: Room) -> None:
    _, heard, ended = room.begin("count", 5_000)
    assert room.turn_until(ended) == (5_000, None)
    assert heard == list(range(5_000))


def test_it_runs_in_another_process_with_less_priority_over_the_same_directory(room: Room) -> None:
    (room.root / "file").write_text("")
    (pid, niceness, root, names), failure = room.result("about")
    assert failure is None
    assert pid != os.getpid()
    assert niceness == min(19, os.nice(0) + NICENESS)
    assert (root, names) == (str(room.root), ["file"])


def test_it_imports_nothing_from_the_current_directory_unless_we_do(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pickle", "penstock"):
        (tmp_path / f"{name}.py").write_text("open('taken', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    assert room.result("count", 1) == (1, None)
    assert not (tmp_path / "taken").exists()


def test_a_process_serves_one_piece_of_work_after_the_other(room: Room) -> None:
    first = room.result("about")[0][0]
    assert room.result("about")[0][0] == first
    assert room.apart.pids == [first]


def test_two_pieces_of_work_at_a_time_have_a_process_each(room: Room) -> None:
    _, heard, _ = room.begin("wait")
    _, other, _ = room.begin("wait")
    assert room.turn_until(heard) != room.turn_until(other)


def test_a_failure_arrives_as_what_it_is(room: Room) -> None:
    result, failure = room.result("fill_up")
    assert result is None
    assert isinstance(failure, DiskFull)
    assert str(failure) == "no room"


def test_a_failure_that_cannot_travel_arrives_as_what_it_says(room: Room) -> None:
    assert "1 and 2" in str(room.result("be_odd")[1])


def test_a_function_that_is_not_there_is_a_failure_and_not_an_end(room: Room) -> None:
    assert isinstance(room.result("nothing")[1], AttributeError)
    assert room.result("count", 1) == (1, None)


def test_its_log_lines_are_ours_and_what_it_prints_is_no_answer(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert room.result("write_lines") == (None, None)
    assert ("penstock.apart.work", logging.WARNING, "said there") in caplog.record_tuples


def test_a_killed_process_is_noticed_and_another_one_takes_its_place(room: Room) -> None:
    _, heard, ended = room.begin("wait")
    pid = room.turn_until(heard)
    os.kill(pid, signal.SIGKILL)
    result, failure = room.turn_until(ended)
    assert result is None
    assert isinstance(failure, ProcessDied)
    assert "SIGKILL" in str(failure)
    assert room.result("about")[0][0] != pid


def test_stopped_work_ends_and_its_process_stays(room: Room) -> None:
    errand, heard, ended = room.begin("wait")
    pid = room.turn_until(heard)
    errand.stop()
    assert room.turn_until(ended) == ("stopped", None)
    assert room.result("about")[0][0] == pid


def test_work_that_does_not_listen_is_killed(room: Room) -> None:
    errand, heard, ended = room.begin("wait_deaf")
    pid = room.turn_until(heard)
    errand.stop()
    assert isinstance(room.turn_until(ended)[1], ProcessDied)
    assert not is_alive(pid)


def test_work_that_is_stopped_before_its_process_is_there_does_not_begin(room: Room) -> None:
    errand, heard, ended = room.begin("wait")
    errand.stop()
    assert isinstance(room.turn_until(ended)[1], ProcessDied)
    assert heard == []


def test_nothing_is_left_running_when_the_node_ends(tmp_path: Path) -> None:
    room = Room(tmp_path)
    _, heard, _ = room.begin("wait_deaf")
    pid = room.turn_until(heard)
    room.close()
    assert not is_alive(pid)


def test_a_child_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = f"""
import sys; sys.path.insert(0, {str(HERE)!r})
from child_process_loop import Room
from pathlib import Path
room = Room(Path({str(tmp_path)!r}))
_, heard, _ = room.begin("wait_deaf")
print(room.turn_until(heard), flush=True)
while True: room.loop.turn()
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    watched = os.pidfd_open(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    try:
        import select

        ready, _, _ = select.select([watched], [], [], WAIT_MS_MAX / 1000)
        assert ready, "the child outlives its parent"
    finally:
        os.close(watched)
