"""What holds for every test.

Property tests have no deadline: how long an example takes says how busy the machine is. The
timeout of pytest bounds them all. Signals that this process was started to ignore (nohup) are
ignored by it alone: a process that a test starts has them as any other.

A machine survives an exception of its own code (machine/runtime.py), and a node one in a handler of
its requests (broker/request.py); the log names them. In a test such an exception is a failure,
unless the test asks for `machine_failures`.
"""

import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

for _number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


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
