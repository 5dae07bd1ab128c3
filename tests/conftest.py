"""What holds for every test.

Property tests have no deadline: how long an example takes says how busy the machine is. The
timeout of pytest bounds them all. `make test` tries the same examples in each run. Signals that
this process was started to ignore (nohup, a script's `&`) are ignored by it alone: a process that a
test starts has them as any other.

A machine survives an exception of its own code (machine/runtime.py), and a node one in a handler of
its requests (broker/request.py); the log names them. In a test such an exception is a failure,
unless the test asks for `machine_failures`.

With `--dist loadgroup` a worker takes whole files, so what a file sets up is set up once. All files
with `xdist_group("spark")` go to one worker and come first: that worker starts a JVM. Examples and
guides take half as long as the other tests on Spark: `xdist_group("spark-guides")` gives them to a
second worker with a JVM. Rooms with short tests come last and even out the ends. (The groups of
xdist itself need node ids that pytest 9 does not let it change.)
"""

import logging
import os
import re
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from depth import EVERY_CASE, WHOLE, examples, thinned

settings.register_profile(
    "penstock", deadline=None, max_examples=examples(100, few=30), derandomize=not WHOLE
)
settings.load_profile("penstock")

for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

# The JVM of a short run is faster without its optimizing compiler and its parallel collector.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
# PySpark gives up on its own JVM after 15 seconds, which a busy machine may need to answer.
os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "120")

SPARK_GROUP = re.compile(r'xdist_group\("(spark[a-z-]*)"\)')
SPARK_FIXTURES = {"spark", "example_spark"}
DAY_MS = "86400000"
SHORT_ROOMS = ("coordinator", "wire", "config", "controller", "machine", "raft", "bulk")


@cache
def spark_group(file: Path) -> str | None:
    """Return the group of a file on Spark."""
    found = SPARK_GROUP.search(file.read_text())
    return found and found[1]


class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each file to one worker, and all files of a group on Spark to the same."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return spark_group(self.config.rootpath / file) or file


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling | None:
    if config.getoption("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # the order of the files counts, not how many tests
    return FileScheduling(config, log)


def _repetitions(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the cases of `each_value` tests whose values other cases have already."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("each_value"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    repeated: set[pytest.Item] = set()
    for of_one in cases.values():
        values = [item.callspec._idlist for item in of_one]  # type: ignore[attr-defined]
        repeated |= set(of_one) - {of_one[place] for place in thinned(values)}
    return repeated


def _rank(item: pytest.Item) -> int:
    room = item.path.relative_to(item.config.rootpath).parts[1]
    return 0 if spark_group(item.path) else 2 if room in SHORT_ROOMS else 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not WHOLE:
        left_out = {item for item in items if item.get_closest_marker("deep")}
        if not EVERY_CASE:
            left_out |= _repetitions(items)
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
    for item in items:
        if SPARK_FIXTURES & set(getattr(item, "fixturenames", ())):
            assert spark_group(item.path), f"{item.path} starts a JVM and has no group on Spark"
    items.sort(key=_rank)


class _Failures(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.records.append(record)


@pytest.fixture(scope="session")
def penstock_settings() -> dict[str, str]:
    """Settings of the shared cluster. Records of tests have times of long ago: retention would
    delete them between a write and a read, so its first look comes after the last test."""
    return {"log.retention.check.interval.ms": DAY_MS, "log.initial.task.delay.ms": DAY_MS}


@pytest.fixture
def machine_failures() -> list[logging.LogRecord]:
    """The failures that machines and handlers have logged in this test, expected here."""
    return []


@pytest.fixture(autouse=True)
def _no_machine_fails(request: pytest.FixtureRequest) -> Iterator[None]:
    handler = _Failures()
    expected = "machine_failures" in request.fixturenames
    if expected:
        handler.records = request.getfixturevalue("machine_failures")
    loggers = [logging.getLogger(f"penstock.{each}") for each in ("machine", "dispatch")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    if handler.records and not expected:
        raise AssertionError(logging.Formatter().format(handler.records[0]))
