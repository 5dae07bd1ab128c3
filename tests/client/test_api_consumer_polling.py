"""poll() and take(): whose next call finishes what, and what a commit without a name counts."""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from consuming import WAIT_SECONDS_MAX, at, committed, consumer_of, filled_topic, fresh_group
from producing import run

from penstock.client.consumer.loops.aio_loops import AioTaker
from penstock.client.consumer.loops.outstanding_polls import CallerState, OutstandingPolls
from penstock.client.consumer.offsets.offset_tracker import InFlight
from penstock.client.failures import HandlerTimedOut
from penstock.sync import Consumer as BlockingConsumer
from penstock.testing.external_cluster import ClusterLike

BY_HAND = {"enable.auto.commit": False}


def blocking_of(
    cluster: ClusterLike, topic: str, group: str, more: Mapping[str, Any] | None = None
) -> BlockingConsumer[bytes, bytes]:
    return BlockingConsumer(
        {"auto.offset.reset": "earliest", **BY_HAND, **(more or {})},
        bootstrap=cluster.bootstrap,
        group=group,
        topics=[topic],
    )


def test_a_commit_counts_what_poll_gave_the_caller(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            for number in range(3):
                assert await consumer.poll(20) is not None
                assert await consumer.commit() == {at(topic): number + 1}

    run(consume())
    assert committed(penstock_cluster, group, topic) == 3


def test_a_blocking_commit_counts_what_take_gave_the_caller(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()
    with blocking_of(penstock_cluster, topic, group) as consumer:
        assert len(consumer.take(2, 20)) == 2
        assert consumer.commit() == {at(topic): 2}
    assert committed(penstock_cluster, group, topic) == 2


@pytest.mark.parametrize("by", ["record", "batch"])
def test_a_commit_in_the_body_of_a_loop_counts_what_the_body_has(
    penstock_cluster: ClusterLike, by: str
) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            if by == "record":
                async for record in consumer:
                    assert await consumer.commit() == {at(topic): record.offset + 1}
                    if record.offset == 2:
                        break
            else:
                async for batch in consumer.batches(max=3, timeout_s=10):
                    assert await consumer.commit() == {at(topic): len(batch)}
                    break

    run(consume())
    assert committed(penstock_cluster, group, topic) == 3


def test_a_blocking_commit_in_the_body_of_a_loop_counts_its_record(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()
    with blocking_of(penstock_cluster, topic, group) as consumer:
        for record in consumer:
            assert consumer.commit() == {at(topic): record.offset + 1}
            if record.offset == 2:
                break
    assert committed(penstock_cluster, group, topic) == 3


def test_a_commit_counts_nothing_that_is_finished_by_hand(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(
            penstock_cluster, topic, group, settings=BY_HAND, manual_finish=True
        ) as consumer:
            async for record in consumer:
                assert await consumer.commit() == {}
                consumer.finish(record)
                assert await consumer.commit() == {at(topic): 1}
                break

    run(consume())


def test_a_commit_does_not_count_what_poll_gave_another_task(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            assert await consumer.poll(20) is not None
            assert await asyncio.create_task(consumer.commit()) == {}

    run(consume())


def test_a_poll_with_a_limit_of_asyncios_own_finishes_the_one_before(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            for _ in range(3):
                # Before Python 3.12 each of these is a task of its own.
                assert await asyncio.wait_for(consumer.poll(20), 30) is not None
            assert consumer.finished_offsets() == {at(topic): 2}
            await consumer.commit()

    run(consume())
    assert committed(penstock_cluster, group, topic) == 3


def test_tasks_that_poll_at_once_each_finish_their_own(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 40), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:

            async def work() -> int:
                count = 0
                while await consumer.poll(2) is not None:
                    count += 1
                return count

            assert sum(await asyncio.gather(work(), work(), work())) == 40
            assert consumer.finished_offsets() == {at(topic): 40}

    run(consume())


def test_threads_that_poll_at_once_each_finish_their_own(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 40), fresh_group()
    with blocking_of(penstock_cluster, topic, group) as consumer:

        def work() -> None:
            while consumer.poll(2) is not None:
                pass

        threads = [threading.Thread(target=work) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
        assert consumer.finished_offsets() == {at(topic): 40}


def test_a_slow_tasks_record_is_not_finished_by_anothers_poll(
    penstock_cluster: ClusterLike,
) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            assert await consumer.poll(20) is not None  # and it is worked on

            async def others() -> Any:
                await consumer.poll(20)
                await consumer.poll(20)
                return consumer.finished_offsets()

            assert await asyncio.create_task(others()) == {}

    run(consume())


class Kept:
    def __init__(self) -> None:
        self.finished = self.given_back = 0

    def finish(self) -> None:
        self.finished += 1

    def give_back(self) -> None:
        self.given_back += 1


@pytest.mark.parametrize("first", ["mine", "left"])
def test_of_those_who_are_no_more_each_is_settled_once(first: str) -> None:
    became: dict[object, CallerState] = {}
    polls: OutstandingPolls[Kept] = OutstandingPolls(
        Kept, lambda owner: became.get(owner, CallerState.GOES_ON)
    )
    order = ["me", "a", "b", "c"] if first == "mine" else ["a", "b", "c", "me"]
    made = {owner: polls.of(owner) for owner in order}
    became |= {"a": CallerState.ENDED, "b": CallerState.FAILED}
    for _ in range(2):
        assert polls.of("me") is made["me"]
    assert [each.finished for each in (made[name] for name in "abc")] == [1, 0, 0]
    assert [each.given_back for each in (made[name] for name in "abc")] == [0, 1, 0]
    assert made["me"].finished == 0, "his own call does that"
    polls.finish_of("me")
    assert (made["me"].finished, made["c"].finished) == (1, 0)


def test_what_a_task_had_that_failed_is_read_again(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:

            async def fail() -> None:
                await consumer.poll(20)
                raise LookupError

            with pytest.raises(LookupError):
                await asyncio.create_task(fail())
            again = await consumer.poll(20)
            assert again is not None and again.offset == 0

    run(consume())


def test_what_a_loop_has_left_is_not_committed(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()

    async def consume() -> None:
        async with consumer_of(penstock_cluster, topic, group, settings=BY_HAND) as consumer:
            with contextlib.suppress(LookupError):
                async for record in consumer:
                    if record.offset == 1:
                        raise LookupError
            assert await consumer.commit() == {at(topic): 1}

    run(consume())


def test_a_body_that_was_told_to_end_commits_nothing(penstock_cluster: ClusterLike) -> None:
    topic, group = filled_topic(penstock_cluster, 3), fresh_group()
    with blocking_of(penstock_cluster, topic, group, {"handler.timeout.ms": 200}) as consumer:
        loop = iter(consumer)
        next(loop)
        (work,) = consumer._core.shared.tracker.in_flight
        end = time.monotonic() + WAIT_SECONDS_MAX
        while work.failure is None and time.monotonic() < end:
            threading.Event().wait(0.01)
        assert consumer.commit() == {}
        with pytest.raises(HandlerTimedOut):
            next(loop)


@pytest.mark.parametrize("why", ["another task", "its time is over", "struck", "forked", "news"])
def test_a_step_takes_the_short_way_only_if_nothing_is_to_be_told(why: str) -> None:
    engine = SimpleNamespace(forked_off=False)
    config = SimpleNamespace(manual_finish=False)
    shared = SimpleNamespace(committed_offsets=[], abandoned=[])
    taker: AioTaker[bytes, bytes] = AioTaker(
        SimpleNamespace(core=SimpleNamespace(engine=engine, config=config), shared=shared)  # type: ignore[arg-type]
    )
    task: Any = object()
    taker._task, taker._yield_at = task, math.inf
    work: InFlight[Any] = InFlight(0, [], task, 0.0)
    taker.work = work
    assert taker.can_step_directly(task)
    match why:
        case "another task":
            taker._task = object()  # type: ignore[assignment]
        case "its time is over":
            taker._yield_at = 0.0
        case "struck":
            work.failure = LookupError()
        case "forked":
            engine.forked_off = True
        case "news":
            shared.committed_offsets.append({})
    assert not taker.can_step_directly(task)
