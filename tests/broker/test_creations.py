"""Creations that are late, lose a race, or have no time at all."""

from collections.abc import Callable
from typing import Any

import pytest
from simulated_node import CREATE_TOPICS, METADATA, Bench, metadata, replies

from penstock.broker.making import Making
from penstock.errors import TopicAlreadyExists
from penstock.wire.messages import k19_create_topics as k19

NOT_AVAILABLE, TIMED_OUT = 5, 7


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

    def __call__(self, _message: Any, _version: int, done: Callable[[Any], None]) -> None:
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


def test_a_creation_by_metadata_that_loses_a_race_is_told_to_come_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exists(
        message: k19.CreateTopicsRequest, _version: int, done: Callable[[Any], None]
    ) -> None:
        code = TopicAlreadyExists.code
        results = [
            k19.CreatableTopicResult(name=each.name, error_code=code) for each in message.topics
        ]
        done(k19.CreateTopicsResponse(topics=results))

    monkeypatch.setattr(bench.broker.metadata, "submit", exists)
    (answer,) = ask(bench, METADATA, metadata("a"))
    assert codes(answer) == {"a": NOT_AVAILABLE}


def test_a_partition_that_is_still_being_made_has_no_leader(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Callable[[], None]] = []
    run = Making._run
    monkeypatch.setattr(Making, "_run", lambda *work: held.append(lambda: run(*work)))
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
