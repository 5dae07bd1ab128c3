"""Topics that ask for more files than the node may open, and creations that are late or lose."""

from collections.abc import Callable
from typing import Any

import pytest
from simulated_node import CREATE_TOPICS, METADATA, Bench, metadata, replies

from penstock.errors import KafkaError, TopicAlreadyExists
from penstock.model import CONSUMER_OFFSETS_TOPIC
from penstock.wire.messages import k19_create_topics as k19

NOT_AVAILABLE, TIMED_OUT, EXISTS, POLICY_VIOLATION = 5, 7, 36, 44
FILES = 100


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A node that may open a hundred files for partitions."""
    made = Bench({"offsets.topic.num.partitions": "50"})

    def left() -> int:
        return FILES - sum(1 for _ in made.broker.hosting.all())

    monkeypatch.setattr(made.world, "files_left", left)
    return made


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


def test_a_topic_that_is_too_large_is_refused_alone(bench: Bench) -> None:
    (answer,) = ask(bench, CREATE_TOPICS, create(("a", 10), ("huge", 1_000), ("b", 10)))
    assert codes(answer) == {"a": 0, "huge": POLICY_VIOLATION, "b": 0}
    assert set(bench.broker.image.topics) == {"a", "b"}


def test_topics_of_one_request_share_the_room(bench: Bench) -> None:
    (answer,) = ask(bench, CREATE_TOPICS, create(("a", 60), ("b", 60), ("c", 40)))
    assert codes(answer) == {"a": 0, "b": POLICY_VIOLATION, "c": 0}


def test_what_is_promised_and_not_made_yet_takes_room(bench: Bench) -> None:
    first, second = ask(bench, CREATE_TOPICS, create(("a", 60)), create(("b", 60)))
    assert (codes(first), codes(second)) == ({"a": 0}, {"b": POLICY_VIOLATION})
    (third,) = ask(bench, CREATE_TOPICS, create(("c", 40)))
    assert codes(third) == {"c": 0}


def test_a_topic_that_exists_needs_no_room(bench: Bench) -> None:
    ask(bench, CREATE_TOPICS, create(("a", 90)))
    (answer,) = ask(bench, CREATE_TOPICS, create(("a", 90), ("b", 10)))
    assert codes(answer) == {"a": EXISTS, "b": 0}


def test_a_refused_creation_gives_its_room_back(bench: Bench) -> None:
    bad = create(("a", 90))
    bad.topics[0].configs = [k19.CreatableTopicConfig(name="no.such", value="1")]
    (answer,) = ask(bench, CREATE_TOPICS, bad)
    assert codes(answer)["a"] not in (0, POLICY_VIOLATION)
    (answer,) = ask(bench, CREATE_TOPICS, create(("b", 90)))
    assert codes(answer) == {"b": 0}


def test_topics_made_by_asking_for_them_need_room_too(bench: Bench) -> None:
    names = [f"t{number}" for number in range(150)]
    (answer,) = ask(bench, METADATA, metadata(*names))
    told = codes(answer)
    assert [told[name] for name in names[:FILES]] == [0] * FILES
    assert {told[name] for name in names[FILES:]} == {POLICY_VIOLATION}
    assert len(bench.broker.image.topics) == FILES


def test_an_internal_topic_needs_room_too(bench: Bench) -> None:
    ask(bench, CREATE_TOPICS, create(("a", 60)))
    heard: list[KafkaError | None] = []
    bench.turn(lambda: bench.broker.coordinators.when_made(CONSUMER_OFFSETS_TOPIC, heard.append))
    bench.settle()
    assert [error.code for error in heard if error] == [POLICY_VIOLATION]
    assert CONSUMER_OFFSETS_TOPIC not in bench.broker.image.topics


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
    monkeypatch.undo()
    assert bench.broker.room.promised == 0


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
