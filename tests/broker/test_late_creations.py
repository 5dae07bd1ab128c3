"""Creations that are late, lose a race, or have no time at all."""

from collections.abc import Callable
from typing import Any

import pytest
from simulated_node import CREATE_TOPICS, METADATA, Bench, metadata, replies

from own_thread import patch_own_thread
from penstock.broker.partitions.partition_creation import PartitionCreation
from penstock.credentials.principal import Caller
from penstock.errors import TopicAlreadyExists
from penstock.wire.messages import k19_create_topics as k19

UNKNOWN, NOT_AVAILABLE, TIMED_OUT, POLICY_VIOLATION = 3, 5, 7, 44


@pytest.fixture
def bench() -> Bench:
    return Bench()


def ask(bench: Bench, key: int, *messages: object) -> list[Any]:
    connection, peer = bench.connect()
    bench.receive(connection, b"".join(bench.frame(key, each) for each in messages))
    bench.settle(1_000)
    return replies(peer, [key] * len(messages))


def create(*topics: tuple[str, int], timeout_ms: int = 30_000) -> k19.CreateTopicsRequest:
    wanted = [
        k19.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name, partitions in topics
    ]
    return k19.CreateTopicsRequest(topics=wanted, timeout_ms=timeout_ms)


def codes(answer: Any) -> dict[str, int]:
    return {each.name: each.error_code for each in answer.topics}


class Stalled:
    """A controller that answers when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Any], None]] = []

    def __call__(
        self,
        _message: Any,
        _version: int,
        done: Callable[[Any], None],
        _caller: Caller,
        _client_id: str | None = None,
    ) -> None:
        self.waiting.append(done)


def test_a_creation_that_takes_longer_than_its_timeout_is_told_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = Stalled()
    monkeypatch.setattr(bench.broker.metadata, "submit", controller)
    (answer,) = ask(bench, CREATE_TOPICS, create(("a", 60), timeout_ms=500))
    assert codes(answer) == {"a": TIMED_OUT}
    late = k19.CreateTopicsResponse(topics=[k19.CreatableTopicResult(name="a")])
    bench.turn(lambda: controller.waiting[0](late))  # nobody waits for it any more
    bench.settle()
    assert not bench.broker.image.topics


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_any_time_nothing_is_created(bench: Bench, timeout_ms: int) -> None:
    (answer,) = ask(bench, CREATE_TOPICS, create(("a", 1), timeout_ms=timeout_ms))
    assert codes(answer) == {"a": TIMED_OUT}
    assert not bench.broker.image.topics


class Held:
    """A controller that answers later."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[list[str]] = []
        self.answers: list[Callable[[int], None]] = []
        monkeypatch.setattr(bench.broker.metadata, "submit", self._submit)

    def _submit(
        self,
        message: k19.CreateTopicsRequest,
        _version: int,
        done: Callable[[Any], None],
        _caller: Caller | None = None,
    ) -> None:
        names = [each.name for each in message.topics]
        self.asked.append(names)

        def answer(code: int) -> None:
            results = [k19.CreatableTopicResult(name=name, error_code=code) for name in names]
            done(k19.CreateTopicsResponse(topics=results))

        self.answers.append(answer)


def test_a_creation_by_metadata_does_not_wait_for_the_controller(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(bench, monkeypatch)
    (answer,) = ask(bench, METADATA, metadata("a", "b"))
    assert codes(answer) == {"a": UNKNOWN, "b": UNKNOWN}
    assert not any(each.partitions for each in answer.topics)
    assert held.asked == [["a", "b"]]


def test_a_topic_on_its_way_is_not_created_a_second_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(bench, monkeypatch)
    ask(bench, METADATA, metadata("a"), metadata("b", "a"), metadata("a"))
    assert held.asked == [["a"], ["b"]]


@pytest.mark.parametrize(("code", "lines"), [(TopicAlreadyExists.code, 0), (POLICY_VIOLATION, 1)])
def test_a_creation_that_failed_is_tried_again_and_told_in_the_log(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
    lines: int,
) -> None:
    held = Held(bench, monkeypatch)
    ask(bench, METADATA, metadata("a"))
    held.answers.pop()(code)
    ask(bench, METADATA, metadata("a"))
    assert held.asked == [["a"], ["a"]]
    assert len([each for each in caplog.messages if each.startswith("a cannot be")]) == lines


def test_a_partition_that_is_still_being_made_has_no_leader(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Callable[[], None]] = []
    run = PartitionCreation._run
    patch_own_thread(
        monkeypatch, PartitionCreation, "_run", lambda *work: held.append(lambda: run(*work))
    )
    bench.turn(lambda: bench.broker.metadata.submit(create(("a", 2)), 7, lambda _answer: None))
    bench.simulation.run_until(lambda: bool(held))
    (answer,) = ask(bench, METADATA, metadata("a"))
    told = [(each.error_code, each.leader_id) for each in answer.topics[0].partitions]
    assert told == [(NOT_AVAILABLE, -1), (NOT_AVAILABLE, -1)]
    for go_on in held:
        bench.turn(go_on)
    bench.settle()
    (answer,) = ask(bench, METADATA, metadata("a"))
    assert [each.error_code for each in answer.topics[0].partitions] == [0, 0]


def test_a_topic_that_is_made_while_its_answer_is_written_is_unknown_in_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics = bench.broker.auto_topics.create

    def create_slowly(names: list[str], caller: Caller) -> None:
        create_topics(names, caller)
        bench.settle(1_000)  # the slices of the answer come after that

    monkeypatch.setattr(bench.broker.auto_topics, "create", create_slowly)
    (answer,) = ask(bench, METADATA, metadata("a"))
    assert "a" in bench.broker.image.topics
    assert [(each.error_code, each.partitions) for each in answer.topics] == [(UNKNOWN, [])]
