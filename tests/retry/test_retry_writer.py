"""A failed transaction is tried again; an unknown outcome ends the session."""

import asyncio
from typing import Any

import pytest
from retry_running import run

from penstock.client.failures import (
    BufferExhausted,
    ClientError,
    Fenced,
    OtherRecordInvalid,
    PurgedInFlight,
    PurgedInQueue,
    TimedOut,
)
from penstock.client.namespace import NO_NAMESPACE
from penstock.client.producer import FailedRecord, RecordsUndelivered
from penstock.client.records import Record
from penstock.errors import IllegalGeneration, MessageTooLarge, TopicAuthorizationFailed
from penstock.model import TopicPartition
from penstock.retry import writer as writer_module
from penstock.retry.ladder import Ladder, Names
from penstock.retry.partition_state import PartitionState, RecordUnwritable, RetryTopics, Write
from penstock.retry.writer import OutcomeUnknown, Writer, rejection_in

STEPS = RetryTopics(Names("orders", "billing"), Ladder.of(("5s",)))


class Told(ClientError):
    """A failure of a transaction, as librdkafka tells of it."""


def told(*, requires_abort: bool = False, fatal: bool = False) -> Told:
    failure = Told("so it went")
    failure.txn_requires_abort = requires_abort
    failure.fatal = fatal
    return failure


class FakeConsumer:
    """Remembers what was finished."""

    namespace = NO_NAMESPACE

    def __init__(self) -> None:
        self.asked = 0
        self.behind_markers: dict[TopicPartition, int] = {}
        self.committed: list[dict[TopicPartition, int]] = []

    def group_metadata(self) -> object:
        self.asked += 1
        return f"metadata {self.asked}"

    def finish(self, record: Any) -> None:
        del record

    def finished_offsets(self) -> dict[TopicPartition, int]:
        return self.behind_markers

    async def commit(self, offsets: dict[TopicPartition, int]) -> None:
        self.committed.append(dict(offsets))


class FakeTransaction:
    """As the producer's: what was written is flushed first, then it is committed."""

    def __init__(self, producer: "FakeProducer") -> None:
        self._producer = producer
        self.commit_begun = False

    async def __aenter__(self) -> None:
        self._producer.begin()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._producer.flush()
            self.commit_begun = True
            self._producer.commit()


class FakeProducer:
    """Fails as it is told: while it writes, or at the commit."""

    def __init__(self, writing: list[Exception], committing: list[Exception]) -> None:
        self.writing, self.committing = writing, committing
        self.posted: list[str] = []
        self.commits: list[tuple[list[str], dict[TopicPartition, int]]] = []
        self._offsets: dict[TopicPartition, int] = {}

    def transaction(self) -> FakeTransaction:
        return FakeTransaction(self)

    def begin(self) -> None:
        self.posted = []

    def commit(self) -> None:
        if self.committing:
            raise self.committing.pop(0)
        self.commits.append((self.posted, self._offsets))

    def post(self, topic: str, *_: Any, **__: Any) -> Any:
        self.posted.append(topic)
        room = asyncio.get_running_loop().create_future()
        room.set_result(None)
        return room

    async def send_offsets(self, member: Any, offsets: dict[TopicPartition, int]) -> None:
        assert member.group_metadata()
        self._offsets = offsets

    def flush(self) -> None:
        if self.writing:
            raise self.writing.pop(0)


def partition_state() -> PartitionState:
    """With one record that has failed."""
    made = PartitionState(STEPS, 0)
    entry = made.admit(Record("orders", 0, 4, b"k", b"v"))
    made.begin(entry, 0)
    made.failed(entry, ValueError(), 0)
    return made


async def write(producer: FakeProducer, one: PartitionState, consumer: FakeConsumer) -> Writer:
    writer = Writer(consumer, producer, lambda: [one], asyncio.Condition(), lambda: 0)  # type: ignore[arg-type]
    writer.wake()
    task = asyncio.create_task(writer.run())
    done = asyncio.create_task(writer.wait_until(lambda: not len(one)))
    await asyncio.wait([task, done], return_when=asyncio.FIRST_COMPLETED)
    for each in (done, task):
        each.cancel()
    if not task.cancelled() and task.done():
        await task
    return writer


@pytest.mark.parametrize(
    ("writing", "committing"),
    [
        ([BufferExhausted("slow")], []),
        ([IllegalGeneration(), told(requires_abort=True)], []),
        ([], [told(requires_abort=True)]),
    ],
)
def test_what_was_certainly_aborted_is_written_again_whole(
    writing: list[Exception], committing: list[Exception]
) -> None:
    async def story() -> None:
        failures = len(writing) + len(committing)
        producer, one, consumer = (
            FakeProducer(writing, committing),
            partition_state(),
            FakeConsumer(),
        )
        await write(producer, one, consumer)
        offsets = {TopicPartition("orders", 0): 5}
        assert producer.commits == [(["orders.billing.retry.5s"], offsets)]
        assert consumer.asked == 1 + failures, "the group may have moved on"
        assert len(one) == 0

    run(story())


@pytest.mark.parametrize("failure", [TimedOut("no answer"), told(fatal=True)])
def test_a_commit_of_unknown_outcome_is_not_made_again(failure: Exception) -> None:
    async def story() -> None:
        producer, one = FakeProducer([], [failure]), partition_state()
        with pytest.raises(OutcomeUnknown):
            await write(producer, one, FakeConsumer())
        assert producer.commits == [] and len(one) == 1

    run(story())


@pytest.mark.parametrize("failure", [TopicAuthorizationFailed(), told(fatal=True)])
def test_what_no_other_attempt_would_help_is_raised(failure: Exception) -> None:
    async def story() -> None:
        with pytest.raises(type(failure)):
            await write(FakeProducer([failure], []), partition_state(), FakeConsumer())

    run(story())


def undelivered(*errors: Exception) -> RecordsUndelivered:
    failures = [FailedRecord("out", None, b"", each) for each in errors]
    return RecordsUndelivered(failures, len(failures))


def handled(count: int) -> PartitionState:
    """With so many records that have a result."""
    made = PartitionState(STEPS, 0)
    for offset in range(count):
        entry = made.admit(Record("orders", 0, offset, b"k", b"v"))
        made.begin(entry, 0)
        made.succeeded(entry, 0, [Write("out", b"k", b"%d" % offset)])
    return made


class Choosy(FakeProducer):
    """Refuses a transaction in which one of these values is, as a broker does: after the flush."""

    def __init__(self, *rejected: bytes) -> None:
        super().__init__([], [])
        self.rejected = rejected
        self.values: list[bytes] = []
        self.at: list[int] = []
        self.sizes: list[int] = []  # of all attempts

    def begin(self) -> None:
        self.values = []
        super().begin()

    def post(self, topic: str, *said: Any, **more: Any) -> Any:
        self.values.append(said[0])
        return super().post(topic, *said, **more)

    def flush(self) -> None:
        self.sizes.append(len(self.values))
        if any(each in self.values for each in self.rejected):
            raise undelivered(PurgedInQueue(), MessageTooLarge("large"), PurgedInFlight())
        self.at.append(self._offsets[TopicPartition("orders", 0)])


@pytest.mark.parametrize("rejected", [(b"0",), (b"7",), (b"9",), (b"3", b"4", b"8")])
def test_a_refused_result_is_found_and_fails_alone(rejected: tuple[bytes, ...]) -> None:
    async def story() -> None:
        producer, one, consumer = Choosy(*rejected), handled(10), FakeConsumer()
        # The consumer counts all of them as finished, as soon as it was told once.
        consumer.behind_markers = {TopicPartition("orders", 0): 12}
        await write(producer, one, consumer)
        written = [topic for posted, _ in producer.commits for topic in posted]
        assert written.count("out") == 10 - len(rejected)
        assert written.count("orders.billing.retry.5s") == len(rejected)
        assert producer.at == sorted(producer.at) and producer.at[-1] == 12
        assert all(at <= 10 for at in producer.at[:-1]), "nothing is passed over"
        counts = one.counts
        assert (counts.succeeded, counts.retried) == (10 - len(rejected), len(rejected))

    run(story())


def test_what_is_left_of_the_suspects_is_halved_on_and_not_begun_anew() -> None:
    async def story() -> None:
        producer, one = Choosy(b"7"), handled(10)
        await write(producer, one, FakeConsumer())
        # 0-9 are refused, 0-4 pass, 5-6 pass, 7 is found; its letter goes with 8 and 9.
        assert producer.sizes == [10, 5, 2, 1, 3]

    run(story())


def test_a_refusal_is_told_by_the_record_that_it_is_about() -> None:
    large = MessageTooLarge("large")
    assert rejection_in(undelivered(OtherRecordInvalid(), large, OtherRecordInvalid())) is large
    beside = OtherRecordInvalid()
    assert rejection_in(undelivered(PurgedInQueue(), beside)) is beside
    assert rejection_in(undelivered(PurgedInQueue())) is None


def test_records_that_a_lost_producer_gave_up_say_what_has_ended_it() -> None:
    async def story() -> None:
        fenced = Fenced("by another")
        with pytest.raises(Fenced):
            await write(
                FakeProducer([undelivered(fenced, fenced)], []), partition_state(), FakeConsumer()
            )

    run(story())


def test_offsets_do_not_catch_up_over_what_is_not_committed() -> None:
    async def story() -> None:
        topic_partition = TopicPartition("orders", 0)
        producer, one, consumer = Choosy(b"5"), handled(10), FakeConsumer()
        consumer.behind_markers = {topic_partition: 12}
        writer = Writer(consumer, producer, lambda: [one], asyncio.Condition(), lambda: 0)  # type: ignore[arg-type]
        assert await writer._step(), "the first half, without the one that is refused"
        assert producer.at == [5] and len(one) == 5
        await writer.commit_markers()
        assert consumer.committed == []

    run(story())


def test_a_letter_that_no_topic_takes_is_dead_and_then_ends_the_life() -> None:
    async def story() -> None:
        one = partition_state()
        producer = FakeProducer([MessageTooLarge("large")], [])
        await write(producer, one, FakeConsumer())
        assert [posted for posted, _ in producer.commits] == [["orders.billing.dead"]]
        two, failures = partition_state(), [MessageTooLarge("large"), MessageTooLarge("large")]
        with pytest.raises(RecordUnwritable, match=r"orders-0@4, orders.billing.dead: large"):
            await write(FakeProducer([*failures], []), two, FakeConsumer())

    run(story())


def test_what_was_given_up_behind_a_refusal_is_written_again() -> None:
    async def story() -> None:
        failures: list[Exception] = [undelivered(PurgedInQueue()), told(requires_abort=True)]
        producer, one = FakeProducer(failures, []), partition_state()
        await write(producer, one, FakeConsumer())
        assert [posted for posted, _ in producer.commits] == [["orders.billing.retry.5s"]]

    run(story())


def test_offsets_catch_up_with_markers_only_where_something_was_committed() -> None:
    async def story() -> None:
        consumer, one = FakeConsumer(), partition_state()
        writer = await write(FakeProducer([], []), one, consumer)
        mine, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
        consumer.behind_markers = {mine: 7, other: 3}
        await writer.commit_markers()
        await writer.commit_markers()
        assert consumer.committed == [{mine: 7}]
        writer.forget([mine])
        consumer.behind_markers = {mine: 9}
        await writer.commit_markers()
        assert consumer.committed == [{mine: 7}]

    run(story())


RETRY = TopicPartition("orders.billing.retry.5s", 0)


def tried_again() -> PartitionState:
    """With one record of a topic of the ladder, decided."""
    made = PartitionState(STEPS, 0)
    made.begin(made.admit(Record(*RETRY, 0, b"k", b"v")), 0)
    return made


def test_at_the_end_the_marker_behind_the_last_record_is_waited_for() -> None:
    async def story() -> None:
        consumer = FakeConsumer()
        consumer.behind_markers = {RETRY: 1}  # the consumer has not got further than the record
        writer = await write(FakeProducer([], []), tried_again(), consumer)
        asyncio.get_running_loop().call_later(0.1, consumer.behind_markers.update, {RETRY: 2})
        await writer.commit_markers(wait_for_markers=True)
        assert consumer.committed == [{RETRY: 2}]

    run(story())


def test_a_marker_that_is_not_found_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_module, "MARKERS_S_MAX", 0.05)

    async def story() -> None:
        consumer = FakeConsumer()
        consumer.behind_markers = {RETRY: 1}
        writer = await write(FakeProducer([], []), tried_again(), consumer)
        await writer.commit_markers(wait_for_markers=True)
        assert consumer.committed == []
        writer.forget([RETRY])
        assert not writer._misses_markers()

    run(story())


def test_offsets_catch_up_with_markers_that_an_earlier_life_has_left() -> None:
    async def story() -> None:
        consumer, one, other = FakeConsumer(), partition_state(), TopicPartition("orders", 1)
        writer = await write(FakeProducer([], []), one, consumer)
        writer.begins_at({RETRY: 1, other: None})
        consumer.behind_markers = {RETRY: 2, other: 9}
        await writer.commit_markers()
        assert consumer.committed == [{RETRY: 2}]

    run(story())
