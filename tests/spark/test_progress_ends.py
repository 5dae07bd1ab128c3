"""Whoever ends a program waits until the last progress of its queries is committed."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.spark import progress
from penstock.spark.progress import ProgressListener


class Session:
    """As much of a Spark session as a listener looks at."""


@pytest.fixture
def listener() -> ProgressListener:
    session: Any = Session()
    made = ProgressListener(session)
    made._queries["run"] = SimpleNamespace(isActive=lambda: False)
    return made


def ends(listener: ProgressListener) -> None:
    event: Any = SimpleNamespace(id="query", runId="run", exception=None)
    listener.onQueryTerminated(event)


def test_a_run_that_nobody_knows_is_not_waited_for(listener: ProgressListener) -> None:
    listener.await_runs(["another"])


@pytest.mark.parametrize("wait", ["await_runs", "await_ended"])
def test_the_end_of_a_run_is_waited_for(listener: ProgressListener, wait: str) -> None:
    waited = threading.Event()

    def await_it() -> None:
        listener.await_runs(["run"]) if wait == "await_runs" else listener.await_ended()
        waited.set()

    thread = threading.Thread(target=await_it)
    thread.start()
    assert not waited.wait(0.05)
    ends(listener)
    thread.join(10)
    assert waited.is_set()


def test_a_query_that_goes_on_is_not_waited_for_at_the_end(listener: ProgressListener) -> None:
    listener._queries["run"] = SimpleNamespace(isActive=lambda: True)
    listener.await_ended()


def test_an_end_that_is_never_told_is_given_up(
    listener: ProgressListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "TOLD_SECONDS_MAX", 0.01)
    listener.await_runs(["run"])
