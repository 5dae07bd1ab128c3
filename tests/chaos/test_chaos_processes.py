"""A driver and what it starts are found and killed, wherever they hide."""

import threading
from pathlib import Path

from chaos.spark_process import Role, SparkProcess

FORKS = "import os; os.fork() or os.setpgid(0, 0)"
LOOKS_MAX = 1_000


def waiting(folder: Path) -> SparkProcess:
    """It has a child in a process group of its own, as Spark's daemons are; both do nothing."""
    code = ["timeit", "-n", "1", "-r", "1", "-s", FORKS, "import signal; signal.pause()"]
    started = SparkProcess(code, folder / "driver.out")
    never = threading.Event()
    for _ in range(LOOKS_MAX):
        if len({each.group for each in started.members()}) == 2:
            return started
        never.wait(0.01)
    raise AssertionError("it does not fork")


def test_what_has_left_its_group_is_still_a_member(tmp_path: Path) -> None:
    driver = waiting(tmp_path)
    roles = [each.role for each in driver.members()]
    driver.kill()
    assert sorted(roles) == [Role.DRIVER, Role.OTHER]


def test_a_kill_ends_all_of_it(tmp_path: Path) -> None:
    driver = waiting(tmp_path)
    driver.kill()
    assert driver.members() == []
    assert driver.ended == -9


def test_a_line_that_is_not_whole_yet_was_not_told(tmp_path: Path) -> None:
    driver = waiting(tmp_path)
    driver.kill()
    (tmp_path / "driver.out").write_text('{"event": "ready"}\n{"event": "thr')
    assert driver.told() == [{"event": "ready"}]
