"""A rejected write is the failure of its record, and of no other record."""

import asyncio
from typing import Any

import pytest
from retry_running import Bench, Happenings, ManualClock, bench, run, running, texts

from penstock import OutRecord, Producer
from penstock.client.admin.aio import Admin
from penstock.client.producer.transactions.transactions import TransactionCalls
from penstock.client.values import ConfigChange, Operation, Resource, ResourceType
from penstock.errors import ProducerFenced
from penstock.retry import Guard, read_trail
from penstock.retry import retrying as retrying_module
from penstock.retry.topics import TopicsUnfit
from penstock.testing import Cluster, Fail
from penstock.testing.external_cluster import ClusterLike

Anything = Any
LONG_AGO_MS = 1_000_000_000_000
ROOMY = ("max.request.size", "buffer.memory")
STRICT = {"message.timestamp.before.max.ms": "3600000"}


@pytest.fixture
def node_bench(penstock_cluster: ClusterLike) -> Bench:
    return bench(penstock_cluster)


REFUSED: dict[str, tuple[dict[str, str], OutRecord[Any, Any], str]] = {
    "too large for its topic": (
        {"max.message.bytes": "20000"},
        OutRecord("x" * 50_000),
        "MessageTooLarge: ",
    ),
    "too large for the producer": (
        {"max.message.bytes": "9000000"},
        OutRecord("x" * 3_000_000),
        "MessageTooLarge: ",
    ),
    "without a key, and compacted": (
        {"cleanup.policy": "compact"},
        OutRecord("x"),
        "InvalidRecord: ",
    ),
    "of another time": (
        STRICT,
        OutRecord("x", key="k", timestamp_ms=LONG_AGO_MS),
        "InvalidTimestamp: ",
    ),
    "for a partition that is not there": ({}, OutRecord("x", partition=7), "UnknownPartition: "),
    "for no partition at all": ({}, OutRecord("x", partition=-3), "ValueError: "),
    "with a header that is none": ({}, OutRecord("x", headers={"h": 7}), "TypeError: "),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("said", REFUSED)
def test_a_result_that_is_refused_fails_its_record_and_no_other(
    node_bench: Bench, said: str
) -> None:
    configs, rejected, cause = REFUSED[said]

    async def story() -> None:
        out = node_bench.cluster.create_topic(f"{node_bench.topic}-out", 2, configs)
        clock = ManualClock()
        calls: list[str] = []

        async def handler(record: Anything) -> object:
            calls.append(record.value)
            return rejected if record.value == "bad" else OutRecord(record.value, key=record.value)

        retrying = node_bench.retrying(clock=clock, settings={"max.request.size": 2_000_000})
        retrying.add(
            node_bench.topic,
            handler,
            value=str,
            ladder=("5s",),
            output=out,
            output_key=str,
            output_value=str,
        )
        good = [f"v{n}" for n in range(40)]
        await node_bench.send(*[("k", each) for each in [*good[:20], "bad", *good[20:]]])
        counts = retrying.counts[node_bench.topic]
        async with running(retrying):
            await retrying.until(lambda: counts.succeeded == 40 and counts.retried == 1)
            await clock.advance(5)
            await retrying.until(lambda: counts.dead == 1)
        assert sorted(texts(await node_bench.read(out))) == sorted(good)
        (letter,) = await node_bench.read(node_bench.names.dead)
        trail = read_trail(letter.headers)
        assert (letter.value, trail.attempts) == (b"bad", 2)
        assert trail.cause.startswith(cause), trail.cause
        assert await node_bench.lag() == 0
        assert retrying.restarts == 0
        assert sorted(calls) == sorted([*good, "bad", "bad"]), "nobody was tried for another"

    run(story())


def test_what_the_source_took_compressed_can_wait_and_die(node_bench: Bench) -> None:
    async def story() -> None:
        clock = ManualClock()

        async def handler(record: Anything) -> None:
            raise ValueError(len(record.value))

        retrying = node_bench.retrying(clock=clock)
        retrying.add(node_bench.topic, handler, value=str, ladder=("5s",))
        packed = {"compression.type": "gzip", **dict.fromkeys(ROOMY, 100_000_000)}
        async with Producer[Any, Any](packed, bootstrap=node_bench.cluster.bootstrap) as producer:
            await producer.send(node_bench.topic, "x" * 40_000_000)
        counts = retrying.counts[node_bench.topic]
        async with running(retrying):
            await retrying.until(lambda: counts.retried == 1)
            await clock.advance(5)
            await retrying.until(lambda: counts.dead == 1)
        (letter,) = await node_bench.read(node_bench.names.dead)
        assert len(letter.value or b"") == 40_000_000

    run(story())


def test_topics_beside_a_source_that_takes_more_than_before_do_so_too(
    node_bench: Bench,
) -> None:
    async def story() -> None:
        dead = Resource(ResourceType.TOPIC, node_bench.names.dead)
        source = Resource(ResourceType.TOPIC, node_bench.topic)
        for limit in (20_000, 90_000_000):
            retrying = node_bench.retrying()
            retrying.add(node_bench.topic, asyncio.sleep, ladder=())  # type: ignore[arg-type]
            async with running(retrying):
                await retrying.until(lambda at=retrying: bool(at.partitions))  # type: ignore[misc]
            async with Admin(bootstrap=node_bench.cluster.bootstrap) as admin:
                told = await admin.describe_configs([dead], keys=["max.message.bytes"])
                (entry,) = told[dead]  # type: ignore[misc]
                assert int(entry.value or 0) > limit
                # As one that was made when its source was smaller.
                for each, value in ((dead, "20000"), (source, "90000000")):
                    change = ConfigChange("max.message.bytes", Operation.SET, value)
                    assert await admin.alter_configs({each: [change]}) == {each: None}

    run(story())


def test_results_that_have_nowhere_to_go_are_told_of_at_the_start() -> None:
    async def story(cluster: Cluster) -> None:
        node_bench = bench(cluster)
        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, asyncio.sleep, output="nowhere")  # type: ignore[arg-type]
        with pytest.raises(TopicsUnfit, match="penstock topic create nowhere"):
            await retrying.run()

    with Cluster(settings={"auto.create.topics.enable": "false"}) as cluster:
        run(story(cluster))


def test_a_producer_that_was_fenced_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying_module, "RESTART_PAUSE_S_MIN", 0.001)

    async def story(cluster: Cluster) -> None:
        node_bench = bench(cluster)

        async def handler(record: Anything) -> None:
            del record

        retrying = node_bench.retrying(settings={"producer.transaction.timeout.ms": 1_000})
        retrying.add(node_bench.topic, handler, value=str)
        await node_bench.send(("k", "order"))
        with cluster.intercept("TxnOffsetCommit", Fail(ProducerFenced), times=1):
            async with running(retrying):
                await retrying.until(lambda: retrying.counts[node_bench.topic].succeeded == 1)
        assert retrying.restarts == 1

    with Cluster() as cluster:
        run(story(cluster))


def test_a_producer_that_was_lost_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying_module, "RESTART_PAUSE_S_MIN", 0.001)
    really = TransactionCalls.send_offsets
    lost: list[TransactionCalls] = []

    def send_offsets(calls: TransactionCalls, *arguments: Anything) -> None:
        if not lost:
            lost.append(calls)
            raise calls._core.stuck_error(1.0)
        really(calls, *arguments)

    monkeypatch.setattr(TransactionCalls, "send_offsets", send_offsets)

    async def story(cluster: Cluster) -> None:
        node_bench = bench(cluster)

        async def handler(record: Anything) -> None:
            del record

        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, handler, value=str)
        await node_bench.send(("k", "order"))
        async with running(retrying):
            await retrying.until(lambda: retrying.counts[node_bench.topic].succeeded == 1)
        assert retrying.restarts == 1

    with Cluster() as cluster:
        run(story(cluster))


def test_a_result_has_the_time_that_its_record_says(node_bench: Bench) -> None:
    async def story() -> None:
        out = node_bench.cluster.create_topic(f"{node_bench.topic}-out", 1, {})

        async def handler(record: Anything) -> object:
            return OutRecord(record.value, timestamp_ms=LONG_AGO_MS)

        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, handler, value=str, output=out, output_value=str)
        await node_bench.send(("k", "order"))
        async with running(retrying):
            (written,) = await node_bench.arrive(out)
        assert written.timestamp_ms == LONG_AGO_MS

    run(story())


def test_in_order_what_came_behind_a_refused_result_is_done_again_behind_it(
    node_bench: Bench,
) -> None:
    async def story() -> None:
        out = node_bench.cluster.create_topic(
            f"{node_bench.topic}-out", 1, {"max.message.bytes": "20000"}
        )
        clock, done = ManualClock(), Happenings[str]()
        held = asyncio.Event()

        async def handler(record: Anything) -> object:
            await done.add(record.value)
            if record.value == "gate":
                await held.wait()
            first = done.count("a1") == 1
            return "x" * 50_000 if record.value == "a1" and first else record.value

        retrying = node_bench.retrying(clock=clock)
        retrying.add(
            node_bench.topic,
            handler,
            value=str,
            ladder=("5s",),
            ordered=True,
            concurrency=16,
            output=out,
            output_value=str,
        )
        # Nothing is committed before the gate opens, so that all of it is in one transaction.
        await node_bench.send(("gate", "gate"), ("a", "a1"), ("a", "a2"), ("b", "b1"), ("a", "a3"))
        counts = retrying.counts[node_bench.topic]
        async with running(retrying):
            await done.reach(5)
            held.set()
            await retrying.until(lambda: counts.retried == 1 and counts.behind == 2)
            await clock.advance(5)
            await retrying.until(lambda: counts.succeeded == 5)
        written = texts(await node_bench.read(out))
        assert [each for each in written if each[0] == "a"] == ["a1", "a2", "a3"]
        assert sorted(written) == ["a1", "a2", "a3", "b1", "gate"]

    run(story())


def test_a_guarded_record_whose_commit_failed_is_not_taken_for_a_duplicate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying_module, "RESTART_PAUSE_S_MIN", 0.001)

    async def story(cluster: Cluster) -> None:
        node_bench = bench(cluster)
        out = cluster.create_topic(f"{node_bench.topic}-out", 1, {})
        failed: list[object] = []

        async def handler(record: Anything) -> object:
            return record.value

        def fence_once(request: object) -> Fail | None:
            failed.append(request)
            return Fail(ProducerFenced) if len(failed) == 1 else None

        # What was fenced is decided when its time is up: the next life waits for that.
        retrying = node_bench.retrying(settings={"producer.transaction.timeout.ms": 1_000})
        guard = Guard("event", shared=False)
        retrying.add(
            node_bench.topic, handler, value=str, guard=guard, output=out, output_value=str
        )
        with cluster.intercept("EndTxn", fence_once):
            await node_bench.send(("k", "order"), headers={"event": "1"})
            async with running(retrying):
                await retrying.until(lambda: retrying.transactions > 0)
                await node_bench.send(("k", "again"), headers={"event": "1"})
                await retrying.until(lambda: retrying.counts[node_bench.topic].seen > 0)
        # On a busy machine the next transaction may be too late as well.
        assert retrying.restarts >= 1
        assert texts(await node_bench.read(out)) == ["order"]
        assert retrying.counts[node_bench.topic].succeeded == 1, (
            "what was not committed is not counted"
        )

    with Cluster() as cluster:
        run(story(cluster))
