"""The engine's rare turns, with a stand-in for librdkafka: what no broker can be made to do."""

import logging
import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import TopicPartition as RdkafkaPartition
from rdkafka_stand_in import A, B, Message, Nobody, Rdkafka, engine_of

from penstock.client.consumer.engine import engine as engine_module
from penstock.client.consumer.engine.engine import CANCEL_PATIENCE_S, UNREAD_BYTES_MAX
from penstock.client.consumer.offsets.committing import ANSWER_PATIENCE_S
from penstock.client.consumer.offsets.offset_tracker import InFlight
from penstock.client.runtime.dedup_logger import DedupLogger


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        (
            "cooperative-sticky",
            [
                ("incremental_unassign", [("orders", 0, -1001)]),
                ("incremental_assign", [("orders", 0, -1001)]),
            ],
        ),
        ("range", [("assign", [("orders", 0, -1001), ("orders", 1, 7)])]),
    ],
)
def test_a_partition_that_went_and_came_in_one_poll_begins_anew(
    strategy: str, told: list[tuple[str, list[tuple[str, int, int]]]]
) -> None:
    engine, rdkafka = engine_of(strategy)
    engine._rebalancer.revoked_in_poll.append(A)
    engine._on_messages([Message(A, 3), Message(B, 6), Message(A, 4)])
    work = engine.shared.step(None, 9, None)
    assert work is not None
    assert [(each.at, each.number) for each in work.messages] == [(B, 6)]
    # The other partition goes on behind what this poll has brought of it.
    assert [each for each in rdkafka.told if "assign" in each[0]] == told


def test_a_partition_that_went_in_a_poll_shows_nothing_more() -> None:
    engine, rdkafka = engine_of("range")
    engine._rebalancer.revoked_in_poll.append(A)
    engine.shared.tracker.revoke([A])
    engine._on_messages([Message(A, 3), Message(B, 6)])
    work = engine.shared.step(None, 9, None)
    assert work is not None and [each.at for each in work.messages] == [B]
    assert not [each for each in rdkafka.told if "assign" in each[0]]


def test_a_position_of_an_earlier_assignment_is_not_believed() -> None:
    engine, rdkafka = engine_of("range")
    rdkafka.positions = {A: 40, B: 50}  # librdkafka's, until it reads again
    engine.partitions.catch_up()
    assert engine.shared.tracker.ends() == {A: None, B: None}
    engine._on_messages([Message(A, 60)])
    assert engine.shared.tracker.ends() == {A: 61, B: None}
    rdkafka.positions[A] = 62  # behind the marker of a transaction
    engine.partitions.catch_up()
    assert engine.shared.tracker.ends() == {A: 62, B: None}
    engine.partitions.move({A: 5})
    engine.partitions.catch_up()
    assert engine.shared.tracker.ends() == {A: 5, B: None}


def test_an_end_that_was_reached_is_not_taken_back_by_a_position() -> None:
    engine, rdkafka = engine_of("range")
    engine._on_messages([Message(A, 60)])
    engine.partitions.reached({A: 70})  # compaction left nothing between
    rdkafka.positions[A] = 61
    engine.partitions.catch_up()
    engine._on_messages([Message(B, number) for number in range(50)])
    assert engine.shared.tracker.ends() == {A: 70, B: 50}


def test_the_log_does_not_repeat_what_librdkafka_repeats(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dedup_logger = DedupLogger(logging.getLogger("penstock.client.consumer"))
    with caplog.at_level("WARNING", "penstock.client.consumer"):
        for number in range(5):
            dedup_logger.log(
                30, "%s [%s]: %s", "FAIL", "client", f"refused (after {number}ms in state X)"
            )
        dedup_logger.log(30, "refused (after 9ms in state X)")
        dedup_logger.log(30, "%s [%s]: %s", "FAIL", "client", "another")
    assert [each.getMessage() for each in caplog.records] == [
        "FAIL [client]: refused (after 0ms in state X)",
        "FAIL [client]: another",
    ]


class Large(Message):
    """Of so many bytes that few of them are too many."""

    def __len__(self) -> int:
        return UNREAD_BYTES_MAX // 8


def test_large_records_are_fetched_only_as_far_as_their_bytes_allow() -> None:
    engine, _ = engine_of("range")
    assert engine._room() == engine.shared.wanted_max > 8
    engine._on_messages([Large(A, number) for number in range(3)])
    assert engine.shared.unread_max == 8
    assert engine._room() == 5
    engine._on_messages([Message(A, 3)])
    assert engine.shared.unread_max == engine.shared.wanted_max, "small ones are welcome again"


class Commits(Rdkafka):
    """Notes commits; nobody answers them but the test."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[list[RdkafkaPartition]] = []

        self.waited_for: list[list[RdkafkaPartition]] = []

    def commit(
        self, *, offsets: list[RdkafkaPartition], asynchronous: bool
    ) -> list[RdkafkaPartition]:
        (self.sent if asynchronous else self.waited_for).append(offsets)
        return offsets


def test_a_commit_by_the_clock_waits_for_the_answer_to_the_one_before() -> None:
    engine, _ = engine_of("range")
    rdkafka, committer = Commits(), engine.committer
    interval_s, now = engine.config.commit_interval_s, time.monotonic()

    def finish(number: int) -> None:
        engine._on_messages([Message(A, number)])
        work = engine.shared.step(None, 1, None)
        assert work is not None
        engine.shared.finish(work)

    def offsets() -> list[int]:
        return [place.offset for sent in rdkafka.sent for place in sent]

    for number in range(3):
        finish(number)
        committer.commit_if_due(rdkafka, now + (number + 1) * (interval_s + 1))  # type: ignore[arg-type]
    assert offsets() == [1], "two under way could arrive in the wrong order"
    committer.on_commit(None, rdkafka.sent[0])
    committer.commit_if_due(rdkafka, now + 4 * (interval_s + 1))  # type: ignore[arg-type]
    assert offsets() == [1, 3]
    # Nothing is heard of that one: it is given up at last.
    finish(3)
    committer.commit_if_due(rdkafka, now + ANSWER_PATIENCE_S + 5 * (interval_s + 1))  # type: ignore[arg-type]
    assert offsets() == [1, 3, 4]


class Working(Nobody):
    """Bodies that have not ended."""

    def is_working(self, work: InFlight[Any]) -> bool:
        return not work.ended


def test_a_body_that_waits_for_its_commit_is_answered_before_its_partition_goes() -> None:
    engine, _ = engine_of("range")
    engine._rebalancer._adapter = Working()
    rdkafka: Any = Commits()
    engine._on_messages([Message(A, 0)])
    work = engine.shared.step(None, 1, None)
    assert work is not None
    future: Future[None] = Future()
    engine.committer.request(rdkafka, {A: 1}, 10.0, future)
    future.add_done_callback(lambda _: engine.shared.finish(work))
    assert len(rdkafka.sent) == 1 and not future.done()
    engine._rebalancer.on_revoke(rdkafka, [RdkafkaPartition(*A)])
    assert future.result(0) is None and len(rdkafka.waited_for) == 1
    assert not engine.committer.expects_answers


class CancelledBody(Nobody):
    """Bodies that are told to end, and do not."""

    def __init__(self) -> None:
        self.cancelled: list[InFlight[Any]] = []

    def cancel(self, work: InFlight[Any]) -> None:
        self.cancelled.append(work)


def test_polling_stops_for_a_body_that_does_not_end_though_it_was_told_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "IDLE_SECONDS", 0.01)
    engine, _ = engine_of("range")
    engine._adapter = adapter = CancelledBody()
    engine._on_messages([Message(A, 0)])
    work = engine.shared.step(None, 1, None)
    assert work is not None
    limit_s, begun = engine.config.handler_timeout_s, work.since
    assert not engine._is_body_stuck(begun + limit_s - 1)
    assert adapter.cancelled == []
    now = time.monotonic()
    work.since = now - limit_s - 1
    assert not engine._is_body_stuck(now), "it is told, and gets a little longer"
    assert adapter.cancelled == [work] and not engine.shared.frozen
    work.since = now - limit_s - CANCEL_PATIENCE_S - 1
    assert engine._is_body_stuck(now)
    assert engine.shared.frozen and engine.shared.step(None, 1, None) is None
    assert adapter.cancelled == [work], "once is enough"
    engine.shared.finish(work)
    assert not engine._is_body_stuck(now)
