"""However a handler ends, its record is decided and its lane goes on."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from retry_running import ManualClock, run

from penstock.client.failures import ClientError
from penstock.client.records import Record
from penstock.retry import Guard
from penstock.retry import task_group as task_group_module
from penstock.retry.attempt import handle
from penstock.retry.key_lanes import Job, KeyLanes
from penstock.retry.ladder import Ladder, Names
from penstock.retry.partition_state import PartitionState, RecordOutcome, RetryTopics
from penstock.retry.retry_headers import read_trail
from penstock.retry.route import Output, TopicRoute
from penstock.retry.task_group import RetryTaskGroup
from penstock.serde import NotToldYet, deserializer_of, serializer_of
from penstock.summed_log import LINES_PER_KIND_MAX, SummedLog

STEPS = RetryTopics(Names("orders", "billing"), Ladder.of(("5s",)))


class Bench:
    """One lane, and records for it."""

    def __init__(self, handler: Callable[[Any], Awaitable[object]], **more: Any) -> None:
        text = deserializer_of(str, is_key=False)
        self.route = TopicRoute("orders", handler, text, text, STEPS.ladder, **more)
        self.partition_state = PartitionState(STEPS, 0)
        self.tasks = RetryTaskGroup()
        self.clock = ManualClock()
        self.lanes = KeyLanes(1, self._work, self.tasks)
        self.left = asyncio.Condition()
        self.failures = SummedLog(logging.getLogger("penstock.retry"))
        self._offset = 0

    def put(self, value: str) -> Job:
        record = Record("orders", 0, self._offset, b"k", value.encode())
        self._offset += 1
        job = Job(self.route, self.partition_state, self.partition_state.admit(record))
        self.lanes.put(job)
        return job

    async def decided(self, job: Job) -> RecordOutcome:
        async with self.left:
            await self.left.wait_for(lambda: job.entry.decided)
        assert job.entry.outcome is not None
        return job.entry.outcome

    async def _work(self, job: Job) -> None:
        await handle(job, self.clock, 60.0, lambda: self.tasks.ended, self.failures)
        async with self.left:
            self.left.notify_all()


async def _raise(error: BaseException) -> None:
    raise error


async def _cancel_oneself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.Event().wait()


ENDS: dict[str, Callable[[], Awaitable[object]]] = {
    "SystemExit: 3": lambda: _raise(SystemExit(3)),
    "GeneratorExit": lambda: _raise(GeneratorExit()),
    "CancelledError: raised": lambda: _raise(asyncio.CancelledError("raised")),
    "CancelledError": _cancel_oneself,
    "RuntimeError: coroutine raised StopIteration": lambda: _raise(StopIteration()),
    "TimeoutError: own": lambda: _raise(TimeoutError("own")),
}


@pytest.mark.parametrize("cause", ENDS)
def test_whatever_a_handler_raises_fails_its_record_and_the_next_is_handled(cause: str) -> None:
    async def handler(record: Any) -> object:
        return await ENDS[cause]() if record.value == "bad" else None

    async def story() -> None:
        bench = Bench(handler)
        bad, good = bench.put("bad"), bench.put("good")
        assert await bench.decided(good) is RecordOutcome.SUCCEEDED
        assert bad.entry.outcome is RecordOutcome.RETRIED
        assert read_trail(bad.entry.writes[0].headers).cause == cause
        assert not bench.tasks.failure.done()
        await bench.tasks.end()

    run(story())


def test_a_record_that_cannot_be_read_just_now_is_tried_again() -> None:
    class Away(Exception):
        retriable = True

    def read(_data: bytes) -> str:
        raise Away("the registry is away")

    async def handler(_record: Any) -> None:
        raise AssertionError("it was not read")

    async def story() -> None:
        bench = Bench(handler)
        bench.route = replace(bench.route, value=deserializer_of(read, is_key=False))
        job = bench.put("fine")
        assert await bench.decided(job) is RecordOutcome.RETRIED
        assert "the registry is away" in (read_trail(job.entry.writes[0].headers).cause or "")
        await bench.tasks.end()

    run(story())


def test_a_record_that_is_withdrawn_is_not_decided_and_the_next_is_handled() -> None:
    async def story() -> None:
        begun = asyncio.Event()

        async def handler(record: Any) -> None:
            if record.value == "slow":
                begun.set()
                await asyncio.Event().wait()

        bench = Bench(handler)
        slow, good = bench.put("slow"), bench.put("good")
        await begun.wait()
        slow.cancel()
        assert await bench.decided(good) is RecordOutcome.SUCCEEDED
        assert not slow.entry.decided
        await bench.tasks.end()

    run(story())


def test_a_handler_that_heeds_no_cancellation_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(task_group_module, "CANCEL_S_MAX", 0.05)
    monkeypatch.setattr(task_group_module, "CANCEL_AGAIN_S", 0.01)

    async def story() -> None:
        begun, over = asyncio.Event(), asyncio.Event()

        async def handler(_record: Any) -> None:
            begun.set()
            while not over.is_set():
                try:
                    await over.wait()
                except asyncio.CancelledError:
                    continue

        bench = Bench(handler)
        job = bench.put("stubborn")
        await begun.wait()
        await bench.tasks.end()
        over.set()
        assert job.task is not None
        await job.task

    run(story())
    assert "1 handlers ignore their cancellation" in caplog.text


@pytest.mark.parametrize("result", [object(), ["a", "list"], {"no": "text"}, 7])
def test_a_result_of_a_wrong_type_fails_its_record(result: object) -> None:
    async def handler(_record: Any) -> object:
        return result

    async def story() -> None:
        text = serializer_of(str, is_key=False)
        bench = Bench(handler, output=Output("out", text, text))
        job = bench.put("order")
        assert await bench.decided(job) is RecordOutcome.RETRIED
        cause = read_trail(job.entry.writes[0].headers).cause
        assert cause.startswith("SerializationError: "), cause
        await bench.tasks.end()

    run(story())


def test_a_serializer_that_gives_no_bytes_fails_its_record() -> None:
    class Wrong:
        def serialize(self, topic: str, value: object, headers: object) -> Any:
            del topic, headers
            return value

    async def handler(_record: Any) -> object:
        return 7

    async def story() -> None:
        bench = Bench(handler, output=Output("out", Wrong(), Wrong()))
        job = bench.put("order")
        assert await bench.decided(job) is RecordOutcome.RETRIED
        cause = read_trail(job.entry.writes[0].headers).cause
        assert "int" in cause and cause.startswith("SerializationError: "), cause
        await bench.tasks.end()

    run(story())


def test_an_idempotency_key_that_is_no_text_makes_its_record_a_dead_letter() -> None:
    async def handler(_record: Any) -> None:
        raise AssertionError("nobody knows whether it was handled")

    async def story() -> None:
        bench = Bench(handler, guard=Guard(lambda _record: 7))  # type: ignore[arg-type,return-value]
        job = bench.put("order")
        assert await bench.decided(job) is RecordOutcome.DEAD
        assert "idempotency key" in read_trail(job.entry.writes[0].headers).cause
        await bench.tasks.end()

    run(story())


RAISED: dict[str, BaseException] = {
    "SystemExit": SystemExit(3),
    "GeneratorExit": GeneratorExit(),
    "CancelledError": asyncio.CancelledError("raised"),
}


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("where", ["deserializer", "guard"])
def test_whatever_a_deserializer_or_a_guard_raises_is_their_records_end(
    kind: str, where: str
) -> None:
    class Reads:
        def deserialize(self, topic: str, data: bytes, headers: object) -> str:
            del topic, headers
            if where == "deserializer" and data == b"bad":
                raise RAISED[kind]
            return data.decode()

    def event(record: Record[Any, Any]) -> str:
        if where == "guard" and record.value == "bad":
            raise RAISED[kind]
        return str(record.value)

    async def handler(_record: Any) -> None:
        return None

    async def story() -> None:
        bench = Bench(handler, guard=Guard(event))
        bench.route = replace(bench.route, value=Reads())
        bad, good = bench.put("bad"), bench.put("good")
        assert await bench.decided(good) is RecordOutcome.SUCCEEDED
        assert bad.entry.outcome is RecordOutcome.DEAD
        cause = read_trail(bad.entry.writes[0].headers).cause
        assert cause.startswith(kind if where == "guard" else "DeserializationError"), cause
        assert not bench.tasks.failure.done()
        await bench.tasks.end()

    run(story())


class Asking:
    """A serde that has to ask first, on a thread: once, or in vain."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.asked, self.go_on = threading.Event(), threading.Event()
        self.told = False

    def ask(self) -> None:
        self.asked.set()
        assert self.go_on.wait(30), "nobody lets it go on"
        if self.failure is not None:
            raise self.failure
        self.told = True

    def _known(self) -> None:
        if not self.told:
            raise NotToldYet(self.ask, "a schema")

    def deserialize(self, _topic: str, data: bytes, _headers: object, /) -> str:
        self._known()
        return data.decode()

    def serialize(self, _topic: str, value: str, _headers: object, /) -> bytes:
        self._known()
        return value.encode()


async def while_it_asks(serde: Asking) -> None:
    """The loop goes on; then there is an answer."""
    assert await asyncio.to_thread(serde.asked.wait, 30)
    serde.go_on.set()


def test_the_loop_goes_on_while_a_record_waits_for_its_schema() -> None:
    async def handler(record: Any) -> object:
        return record.value

    async def story() -> None:
        reads, writes = Asking(), Asking()
        plain = serializer_of(None, is_key=True)
        bench = Bench(handler, output=Output("out", plain, writes))
        bench.route = replace(bench.route, value=reads)
        job = bench.put("six")
        await while_it_asks(reads)
        await while_it_asks(writes)
        assert await bench.decided(job) is RecordOutcome.SUCCEEDED
        assert [each.value for each in job.entry.writes] == [b"six"]

    run(story())


@pytest.mark.parametrize(
    ("retriable", "outcome"), [(True, RecordOutcome.RETRIED), (False, RecordOutcome.DEAD)]
)
def test_a_question_without_an_answer_is_the_records_failure(
    retriable: bool, outcome: RecordOutcome
) -> None:
    async def handler(_record: Any) -> None:
        raise AssertionError("it was not read")

    async def story() -> None:
        failure = ClientError("the registry says no")
        failure.retriable = retriable
        reads = Asking(failure)
        bench = Bench(handler)
        bench.route = replace(bench.route, value=reads)
        job = bench.put("six")
        await while_it_asks(reads)
        assert await bench.decided(job) is outcome
        assert "the registry says no" in read_trail(job.entry.writes[0].headers).cause

    run(story())


def test_a_record_that_is_withdrawn_while_it_waits_for_its_schema_is_not_decided() -> None:
    async def handler(_record: Any) -> None: ...

    async def story() -> None:
        reads = Asking()
        bench = Bench(handler)
        text = bench.route
        bench.route = replace(text, value=reads)
        job = bench.put("six")
        assert await asyncio.to_thread(reads.asked.wait, 30)
        bench.route = text
        behind = bench.put("seven")
        job.cancel()
        assert await bench.decided(behind) is RecordOutcome.SUCCEEDED
        assert not job.entry.decided
        reads.go_on.set()

    run(story())


def test_a_handler_that_always_fails_writes_a_few_lines_and_a_sum(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail_often() -> None:
        bench = Bench(lambda _: _raise(ValueError("broken")))
        for number in range(50):
            await bench.decided(bench.put(str(number)))
        bench.failures.sum_up()
        await bench.tasks.end()

    run(fail_often())
    lines = [each.getMessage() for each in caplog.records]
    assert len(lines) == LINES_PER_KIND_MAX + 1
    assert lines[-1].startswith("40 more such lines were not logged one by one; the last: attempt")
