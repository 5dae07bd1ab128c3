"""What holds for every test.

Property tests have no deadline: how long an example takes says how busy the machine is. The
timeout of pytest bounds them all. Signals that this process was started to ignore (nohup) are
ignored by it alone: a process that a test starts has them as any other.

A machine survives an exception of its own code (machine/runtime.py), and a node one in a handler of
its requests (broker/request.py); the log names them. In a test such an exception is a failure,
unless the test asks for `machine_failures`.

With `-n 2 --dist loadgroup` a worker takes whole files, so what a file sets up is set up once. All
files with `xdist_group("spark")` go to one worker and come first: that worker starts the only JVM,
the other does the rest. Rooms with short tests come last and even out the ends. (The groups of
xdist itself need node ids that pytest 9 does not let it change.)
"""

import logging
import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from depth import WHOLE

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

for _number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

# PySpark gives up on its own JVM after 15 seconds, which a busy machine may need to answer.
os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "120")

ON_SPARK = 'xdist_group("spark")'
SPARK_FIXTURES = {"spark", "example_spark"}
SHORT_ROOMS = ("coordinator", "wire", "config", "controller", "machine", "raft", "bulk")


@cache
def is_on_spark(file: Path) -> bool:
    return ON_SPARK in file.read_text()


class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each file to one worker, and all files on Spark to the same."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return ON_SPARK if is_on_spark(self.config.rootpath / file) else file


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling | None:
    if config.getoption("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # the order of the files counts, not how many tests
    return FileScheduling(config, log)


def _rank(item: pytest.Item) -> int:
    room = item.path.relative_to(item.config.rootpath).parts[1]
    return 0 if is_on_spark(item.path) else 2 if room in SHORT_ROOMS else 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not WHOLE:
        deep = [item for item in items if item.get_closest_marker("deep")]
        items[:] = [item for item in items if item not in deep]
        config.hook.pytest_deselected(items=deep)
    for item in items:
        if SPARK_FIXTURES & set(getattr(item, "fixturenames", ())):
            assert is_on_spark(item.path), f"{item.path} starts a JVM and is not marked {ON_SPARK}"
    items.sort(key=_rank)


class _Failures(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.records.append(record)


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
