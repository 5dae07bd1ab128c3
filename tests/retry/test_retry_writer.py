"""What becomes of a transaction that fails: made again, or given up where nobody knows."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest
from retry_running import run

from penstock.client.failures import ClientError, TimedOut
from penstock.client.namespace import NO_NAMESPACE
from penstock.client.records import Record
from penstock.errors import IllegalGeneration, MessageTooLarge
from penstock.model import TopicPartition
from penstock.retry.course import Course, Steps
from penstock.retry.ladder import Ladder, Names
from penstock.retry.writer import OutcomeUnknown, Writer

STEPS = Steps(Names("orders", "billing"), Ladder.of(("5s",)))


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


class FakeProducer:
    """Fails as it is told: while it writes, or at the commit."""

    def __init__(self, writing: list[Exception], committing: list[Exception]) -> None:
        self.writing, self.committing = writing, committing
        self.posted: list[str] = []
        self.commits: list[tuple[list[str], dict[TopicPartition, int]]] = []
        self._offsets: dict[TopicPartition, int] = {}

    @asynccontextmanager
    async def transaction(self) -> Any:
        self.posted = []
        yield
        if self.committing:
            raise self.committing.pop(0)
        self.commits.append((self.posted, self._offsets))

    async def post(self, topic: str, *_: Any, **__: Any) -> None:
        self.posted.append(topic)

    async def send_offsets(self, member: Any, offsets: dict[TopicPartition, int]) -> None:
        assert member.group_metadata()
        self._offsets = offsets

    async def flush(self) -> None:
        if self.writing:
            raise self.writing.pop(0)


def course() -> Course:
    """With one record that has failed."""
    made = Course(STEPS, 0)
    entry = made.admit(Record("orders", 0, 4, b"k", b"v"))
    made.begin(entry, 0)
    made.failed(entry, ValueError(), 0)
    return made


async def write(producer: FakeProducer, one: Course, consumer: FakeConsumer) -> Writer:
    writer = Writer(consumer, producer, lambda: [one], asyncio.Condition())  # type: ignore[arg-type]
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
        ([TimedOut("slow")], []),
        ([IllegalGeneration(), told(requires_abort=True)], []),
        ([], [told(requires_abort=True)]),
    ],
)
def test_what_was_certainly_aborted_is_written_again_whole(
    writing: list[Exception], committing: list[Exception]
) -> None:
    async def story() -> None:
        failures = len(writing) + len(committing)
        producer, one, consumer = FakeProducer(writing, committing), course(), FakeConsumer()
        await write(producer, one, consumer)
        offsets = {TopicPartition("orders", 0): 5}
        assert producer.commits == [(["orders.billing.retry.5s"], offsets)]
        assert consumer.asked == 1 + failures, "the group may have moved on"
        assert len(one) == 0

    run(story())


@pytest.mark.parametrize("failure", [TimedOut("no answer"), told(fatal=True)])
def test_a_commit_of_unknown_outcome_is_not_made_again(failure: Exception) -> None:
    async def story() -> None:
        producer, one = FakeProducer([], [failure]), course()
        with pytest.raises(OutcomeUnknown):
            await write(producer, one, FakeConsumer())
        assert producer.commits == [] and len(one) == 1

    run(story())


@pytest.mark.parametrize("failure", [MessageTooLarge(), told(fatal=True)])
def test_what_no_other_attempt_would_help_is_raised(failure: Exception) -> None:
    async def story() -> None:
        with pytest.raises(type(failure)):
            await write(FakeProducer([failure], []), course(), FakeConsumer())

    run(story())


def test_offsets_catch_up_with_markers_only_where_something_was_committed() -> None:
    async def story() -> None:
        consumer, one = FakeConsumer(), course()
        writer = await write(FakeProducer([], []), one, consumer)
        mine, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
        consumer.behind_markers = {mine: 7, other: 3}
        await writer.catch_up()
        await writer.catch_up()
        assert consumer.committed == [{mine: 7}]
        writer.forget([mine])
        consumer.behind_markers = {mine: 9}
        await writer.catch_up()
        assert consumer.committed == [{mine: 7}]

    run(story())
