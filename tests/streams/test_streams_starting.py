"""How an application starts: its names, permissions after a reset, busy machines, interrupts."""

import json
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.query_start import ATTEMPTS_MAX
from penstock.streams import QueryFailed, Streams, registry
from penstock.streams.java_output import (
    CHATTER,
    JavaOutput,
    Sieve,
    interrupts_wait,
    shut_on_interrupt,
)
from penstock.streams.reset import is_internal
from penstock.streams.runner import RunningStreams, in_words_of
from penstock.streams.settings import StreamsSettings, state_directory

NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,12}", fullmatch=True).filter(lambda name: name.strip("."))


def settings_of(name: str, state_dir: Path | None = None) -> StreamsSettings:
    return Streams(name, state_dir=state_dir).settings


# -- names


@given(NAMES, NAMES, NAMES, NAMES)
def test_no_two_queries_of_any_applications_have_one_name(
    one: str, first: str, two: str, second: str
) -> None:
    same = settings_of(one).name_of(first) == settings_of(two).name_of(second)
    assert same == ((one, first) == (two, second))


def test_an_application_whose_name_goes_on_keeps_its_internal_topics() -> None:
    assert is_internal("shop-join-3-changelog", "shop")
    assert not is_internal("shop-eu-join-3-changelog", "shop")
    assert is_internal("shop-eu-join-3-changelog", "shop-eu")
    assert not is_internal("shop-changelog", "shop")


def test_a_cluster_tells_of_an_application_by_its_groups() -> None:
    groups = ["shop", "shop:totals", "shop.eu", "shopping", "other"]
    known = registry.known_by_groups("shop", "here:1", groups)
    assert known is not None
    assert (known.groups, known.bootstrap) == (["shop", "shop:totals"], "here:1")
    assert registry.known_by_groups("sho", "here:1", groups) is None


# -- permissions


def checkpoint(directory: Path, query: str, spark_id: str, batches: int = 0) -> None:
    place = directory / registry.QUERIES / query
    (place / "commits").mkdir(parents=True)
    (place / "metadata").write_text(json.dumps({"id": spark_id}))
    for number in range(batches):
        (place / "commits" / str(number)).touch()


def test_without_a_reset_no_new_checkpoint_is_allowed(tmp_path: Path) -> None:
    assert not registry.Permissions(tmp_path).allows("a")


def test_a_reset_allows_a_new_checkpoint_once(tmp_path: Path) -> None:
    registry.allow(tmp_path, ["a"])
    permissions = registry.Permissions(tmp_path)
    assert permissions.allows("a") and not permissions.allows("b")
    permissions.used("a", "first")
    # Deleted months later, by whom ever: Spark makes another query.
    assert not registry.Permissions(tmp_path).allows("a")
    checkpoint(tmp_path, "a", "second")
    assert not registry.Permissions(tmp_path).allows("a")


def test_a_start_that_failed_before_its_first_batch_keeps_the_permission(tmp_path: Path) -> None:
    registry.allow(tmp_path, ["a"])
    registry.Permissions(tmp_path).used("a", "first")
    checkpoint(tmp_path, "a", "first")
    assert registry.Permissions(tmp_path).allows("a")


def test_the_first_committed_batch_ends_the_permission(tmp_path: Path) -> None:
    registry.allow(tmp_path, ["a"])
    registry.Permissions(tmp_path).used("a", "first")
    checkpoint(tmp_path, "a", "first", batches=1)
    assert not registry.Permissions(tmp_path).allows("a")


def test_a_permission_that_is_not_valid_is_cleared_away(tmp_path: Path) -> None:
    registry.allow(tmp_path, ["a"])
    registry.Permissions(tmp_path).used("a", "first")
    registry.Permissions(tmp_path).used("a", "second")
    assert json.loads((tmp_path / registry.ALLOWED).read_text()) == {}


def test_a_permission_for_all_queries_ends_when_all_have_started(tmp_path: Path) -> None:
    registry.allow(tmp_path, [registry.ANY])
    permissions = registry.Permissions(tmp_path)
    for query in ("a", "b"):
        assert permissions.allows(query)
        permissions.used(query, f"id of {query}")
    permissions.all_started()
    assert not registry.Permissions(tmp_path).allows("c")
    checkpoint(tmp_path, "a", "id of a")
    assert registry.Permissions(tmp_path).allows("a")


# -- the way out


@pytest.mark.parametrize(
    "reason",
    [
        "NewCheckpoint: query 2 comes with a checkpoint that knows nothing of it ...",
        "the checkpoint went back in time: sink ...",
        "ContentUnknown: ... new.checkpoint=allow if rows may be there twice",
    ],
)
def test_a_lost_state_directory_names_the_command_that_helps(reason: str, tmp_path: Path) -> None:
    said = in_words_of(settings_of("shop", tmp_path), reason)
    assert f"`penstock streams reset shop --state-dir {tmp_path} --execute`" in said
    assert "new.checkpoint" not in said


def test_the_usual_state_directory_is_not_spelt_out() -> None:
    said = in_words_of(settings_of("shop", state_directory(None)), "knows nothing of it")
    assert "`penstock streams reset shop --execute`" in said


def test_other_reasons_are_told_as_they_are(tmp_path: Path) -> None:
    assert in_words_of(settings_of("shop", tmp_path), "ValueError: no") == "ValueError: no"


# -- busy machines


class Started:
    """A query as the runner sees it."""

    def __init__(self, log: list[str], name: str, problem: str | None, polls: int) -> None:
        self._log, self._name, self._polls = log, name, polls
        self._problem = None if problem is None else RuntimeError(problem)
        self.lastProgress = None
        self.runId = name
        log.append(f"{name} starts")

    @property
    def isActive(self) -> bool:
        return self._problem is None

    @property
    def status(self) -> dict[str, Any]:
        self._polls -= 1
        if self._polls > 0:
            return {"message": "Initializing sources"}
        self._log.append(f"{self._name} is up")
        return {"message": "Waiting for data to arrive"}

    def awaitTermination(self, seconds: float) -> None:
        pass

    def exception(self) -> Exception | None:
        return self._problem

    def stop(self) -> None:
        pass


class Unheard:
    """A Spark session that nobody listens to."""


BUSY = "Python worker failed to connect back."


def run_with(tmp_path: Path, problems: list[str | None]) -> tuple[RunningStreams, list[str]]:
    log: list[str] = []
    left = list(problems)
    queries: Any = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]

    def begin(query: Any) -> Any:
        return Started(log, query.name, left.pop(0), polls=3)

    spark: Any = Unheard()
    return RunningStreams(settings_of("shop", tmp_path), [queries], begin, spark), log


def test_queries_start_one_after_the_other(tmp_path: Path) -> None:
    running, log = run_with(tmp_path, [None, None])
    running.stop()
    assert log == ["a starts", "a is up", "b starts", "b is up"]


def test_a_query_that_a_busy_machine_has_failed_is_started_again(tmp_path: Path) -> None:
    running, log = run_with(tmp_path, [BUSY, BUSY, None, None])
    running.stop()
    assert log[:4] == ["a starts", "a starts", "a starts", "a is up"]


def test_a_machine_that_stays_busy_is_told_in_the_end(tmp_path: Path) -> None:
    running, log = run_with(tmp_path, [BUSY] * ATTEMPTS_MAX + [None])
    with running, pytest.raises(QueryFailed, match=r"query a stopped.*failed to connect back"):
        running.wait(lambda _: None)
    assert log.count("a starts") == ATTEMPTS_MAX


def test_another_failure_is_not_tried_again(tmp_path: Path) -> None:
    running, log = run_with(tmp_path, ["ValueError: no", None])
    running.stop()
    assert log.count("a starts") == 1


# -- what reaches the terminal


def test_the_chatter_of_pysparks_worker_and_its_empty_lines_are_left_out() -> None:
    lines = [
        b"one",
        b"Starting " + CHATTER[0] + b".",
        b"",
        b"two",
        b"",
        CHATTER[0] + b" x",
        b"three",
    ]
    sieve = Sieve()
    assert [line for line in lines if sieve.passes(line)] == [b"one", b"two", b"", b"three"]


def carried(written: list[bytes], shut: bool) -> bytes:
    source, entrance = os.pipe()
    shown, target = os.pipe()
    output = JavaOutput()
    if shut:
        output.shut()
    carrier = threading.Thread(target=output.carry, args=(source, target))
    carrier.start()
    for data in written:
        os.write(entrance, data)
    os.close(entrance)
    carrier.join(30)
    with os.fdopen(shown, "rb") as end:
        return end.read()


def test_what_java_writes_reaches_the_terminal() -> None:
    assert carried([b"ERROR", b" one\ntwo\n", CHATTER[0] + b"\n\n", b"cut"], False) == (
        b"ERROR one\ntwo\ncut"
    )


def test_after_an_interrupt_nothing_more_is_shown() -> None:
    assert carried([b"Traceback\n"] * 3, True) == b""


def test_an_interrupt_shuts_the_output_and_is_python_s_own() -> None:
    output = JavaOutput()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), shut_on_interrupt(output):
        signal.raise_signal(signal.SIGINT)
    assert output.is_shut and signal.getsignal(signal.SIGINT) is before


def test_what_is_said_about_an_interrupt_in_this_process_is_not_shown(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(KeyboardInterrupt), shut_on_interrupt(JavaOutput()):
        _interrupt_and_complain()
    os.write(2, b"the last word")
    assert capfd.readouterr().err == "the last word"


def _interrupt_and_complain() -> None:
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        os.write(2, b"Traceback")


def test_an_interrupt_waits_until_java_has_started() -> None:
    output, steps = JavaOutput(), list[str]()
    with pytest.raises(KeyboardInterrupt), interrupts_wait(output):
        _interrupt_and_go_on(steps)
    assert steps == ["interrupted", "started"] and output.is_shut


def _interrupt_and_go_on(steps: list[str]) -> None:
    signal.raise_signal(signal.SIGINT)
    steps += ["interrupted", "started"]
