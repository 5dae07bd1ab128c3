"""How a job on Spark begins: the session's two names, queries that a busy machine has failed."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import penstock.spark.session
from penstock.spark.hang_up import QuietHook, end_quietly, take_updates_quietly
from penstock.spark.query_start import begin, start

BUSY = "Python worker failed to connect back."


class Query:
    """A query as its starter sees it: it ends with a problem, or initializes for some polls."""

    lastProgress = None

    def __init__(self, problem: str | None, polls: int = 2) -> None:
        self._problem = None if problem is None else RuntimeError(problem)
        self._polls = polls

    @property
    def isActive(self) -> bool:
        return self._problem is None

    @property
    def status(self) -> dict[str, str]:
        self._polls -= 1
        return {"message": "Initializing sources" if self._polls >= 0 else "Processing new data"}

    def awaitTermination(self, seconds: float) -> None:
        pass

    def exception(self) -> Exception | None:
        return self._problem


def writer_of(*problems: str | None) -> Any:
    queries = [Query(each) for each in problems]
    return SimpleNamespace(start=lambda: queries.pop(0), left=queries)


def test_a_query_that_a_busy_machine_has_failed_is_started_again() -> None:
    assert start(writer_of(BUSY, BUSY, None)).isActive


def test_a_machine_that_stays_busy_leaves_the_last_query_to_tell_of_it() -> None:
    writer = writer_of(BUSY, BUSY, None)
    assert BUSY in str(start(writer, attempts_max=2).exception())
    assert len(writer.left) == 1


def test_another_failure_is_not_tried_again() -> None:
    writer = writer_of("ValueError: no", None)
    start(writer)
    assert len(writer.left) == 1


def test_a_start_tells_what_it_waits_for() -> None:
    told: list[str] = []
    begin(writer_of(None).start, waiting=told.append)
    assert told == ["Initializing sources"] * 2


def test_session_is_a_module_that_can_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.spark import session

    found: Any = penstock.spark.session
    assert found is sys.modules["penstock.spark.session"] and found.register
    made: Any = lambda app: f"a session for {app}"  # noqa: E731
    monkeypatch.setattr(found, "session", made)
    assert session("job") == made("job")


def test_a_process_that_spark_has_hung_up_on_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printed: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda _kind, error, _trace: printed.append(error))
    end_quietly()
    end_quietly()
    hang_up, other = BrokenPipeError(), BrokenPipeError()
    hang_up.__context__ = EOFError()
    for error in (hang_up, other):
        sys.excepthook(type(error), error, None)
    assert isinstance(sys.excepthook, QuietHook) and printed == [other]


def test_an_update_that_java_broke_off_is_not_printed() -> None:
    printed: list[str] = []
    server: Any = SimpleNamespace(handle_error=lambda request, _: printed.append(request))
    take_updates_quietly(server)
    for request, error in (("broken off", EOFError()), ("wrong", ValueError())):
        try:
            raise error
        except Exception:
            server.handle_error(request, None)
    assert printed == ["wrong"]
