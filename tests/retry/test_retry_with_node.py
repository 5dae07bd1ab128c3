"""Retries against a node: attempts, their times, and the records beside the source."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from retry_running import BEGIN_MS, Bench, Happenings, ManualClock, bench, run, running, texts

from penstock import OutRecord
from penstock.client.admin.aio import Admin
from penstock.client.failures import NoOffset, TimedOut
from penstock.client.settings import SettingRefused
from penstock.client.transport.connection import CannotReach
from penstock.client.values import Resource, ResourceType
from penstock.errors import KafkaError
from penstock.retry import Guard, NoRetry, Retrying, read_trail
from penstock.retry import maintenance as maintenance_module
from penstock.retry import retrying as retrying_module
from penstock.retry.topics import TopicsUnfit
from penstock.retry.writer import OutcomeUnknown
from penstock.testing.external_cluster import ClusterLike

# Values are read as text where a test looks at them.
Anything = Any


@pytest.fixture
def node_bench(penstock_cluster: ClusterLike) -> Bench:
    return bench(penstock_cluster)


class Trials:
    """A handler that fails for some values, as often as it is told, and remembers its calls."""

    def __init__(self, failures: dict[str, int] | None = None) -> None:
        self.seen: Happenings[str] = Happenings()
        self._failures = failures or {}

    async def __call__(self, record: Anything) -> None:
        await self.seen.add(record.value)
        if self._failures.get(record.value, 0) > 0:
            self._failures[record.value] -= 1
            raise ValueError(f"no {record.value} today")


def test_a_failed_record_is_tried_again_when_it_is_due(node_bench: Bench) -> None:
    async def story() -> None:
        clock, trials = ManualClock(), Trials({"order": 1})
        retrying = node_bench.retrying(clock=clock)
        retrying.add(node_bench.topic, trials, value=str, ladder=("5s", "1m"))
        await node_bench.send(("k", "order"), headers={"own": "header"})
        async with running(retrying):
            await trials.seen.reach(1)
            (waiting,) = await node_bench.arrive(node_bench.names.retry(5_000))
            assert (waiting.key, waiting.value, waiting.header("own")) == (
                b"k",
                b"order",
                b"header",
            )
            trail = read_trail(waiting.headers)
            assert (trail.topic, trail.partition, trail.offset) == (node_bench.topic, 0, 0)
            assert (trail.attempts, trail.cause) == (1, "ValueError: no order today")
            assert trail.due_ms == BEGIN_MS + 5_000
            await retrying.until(lambda: retrying.transactions == 1)
            await clock.advance(5)
            await trials.seen.reach(2)
        assert retrying.transactions == 2
        assert trials.seen == ["order", "order"]
        assert await node_bench.read(node_bench.names.dead) == []
        assert retrying.counts[node_bench.topic].succeeded == 1

    run(story())


def test_what_waits_holds_up_nothing_else(node_bench: Bench) -> None:
    async def story() -> None:
        trials = Trials({"bad": 9})
        retrying = node_bench.retrying(clock=ManualClock())
        retrying.add(node_bench.topic, trials, value=str)
        await node_bench.send(("k", "bad"), ("k", "one"), (None, "two"))
        async with running(retrying):
            await trials.seen.reach(3)
            await node_bench.send(("k", "three"))
            await trials.seen.reach(4)
        assert trials.seen == ["bad", "one", "two", "three"]

    run(story())


def test_after_the_last_step_a_record_is_dead_with_its_cause(node_bench: Bench) -> None:
    async def story() -> None:
        clock, trials = ManualClock(), Trials({"order": 9})
        retrying = node_bench.retrying(clock=clock)
        retrying.add(node_bench.topic, trials, value=str, ladder=("5s", "1m"))
        await node_bench.send(("k", "order"))
        async with running(retrying):
            await trials.seen.reach(1)
            await node_bench.arrive(node_bench.names.retry(5_000))
            await clock.advance(5)
            await trials.seen.reach(2)
            await node_bench.arrive(node_bench.names.retry(60_000))
            await clock.advance(60)
            await trials.seen.reach(3)
            (letter,) = await node_bench.arrive(node_bench.names.dead)
        trail = read_trail(letter.headers)
        assert (trail.attempts, trail.due_ms) == (3, None)
        assert trail.cause == "ValueError: no order today"
        assert (trail.first_failed_ms, trail.last_failed_ms) == (BEGIN_MS, BEGIN_MS + 65_000)
        assert (letter.key, letter.value) == (b"k", b"order")

    run(story())


def test_a_handler_can_give_up_at_once(node_bench: Bench) -> None:
    async def story() -> None:
        async def handler(record: Anything) -> None:
            raise NoRetry(f"{record.value} will never do")

        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, handler, value=str)
        await node_bench.send((None, "order"))
        async with running(retrying):
            await retrying.until(lambda: retrying.counts[node_bench.topic].dead == 1)
            (letter,) = await node_bench.arrive(node_bench.names.dead)
        assert read_trail(letter.headers).cause == "NoRetry: order will never do"

    run(story())


def test_what_cannot_be_read_is_dead_at_once_and_stops_nothing(node_bench: Bench) -> None:
    async def story() -> None:
        trials = Trials()
        retrying = node_bench.retrying()

        async def handler(record: Anything) -> None:
            await trials.seen.add(str(record.value))

        retrying.add(node_bench.topic, handler, value="json")
        await node_bench.send(("k", "{"), ("k", '{"n": 1}'))
        async with running(retrying):
            await trials.seen.reach(1)
            (letter,) = await node_bench.arrive(node_bench.names.dead)
        assert trials.seen == ["{'n': 1}"]
        assert letter.value == b"{"
        trail = read_trail(letter.headers)
        assert trail.attempts == 1
        assert trail.cause.startswith("DeserializationError: ")

    run(story())


def test_a_handler_that_takes_too_long_has_failed(node_bench: Bench) -> None:
    async def story() -> None:
        begun = Happenings[str]()

        async def handler(record: Anything) -> None:
            await begun.add(record.value)
            await asyncio.Event().wait()

        retrying = node_bench.retrying(settings={"handler.timeout.ms": 100})
        retrying.add(node_bench.topic, handler, value=str, ladder=("10m",))
        await node_bench.send((None, "order"))
        async with running(retrying):
            await begun.reach(1)
            (waiting,) = await node_bench.arrive(node_bench.names.retry(600_000))
        assert read_trail(waiting.headers).cause.startswith("HandlerTimedOut: ")

    run(story())


def test_a_handler_sees_the_record_as_it_was_in_the_source(node_bench: Bench) -> None:
    async def story() -> None:
        clock, seen = ManualClock(), Happenings[Anything]()

        async def handler(record: Anything) -> None:
            await seen.add(record)
            if len(seen) == 1:
                raise ValueError

        retrying = node_bench.retrying(clock=clock)
        retrying.add(node_bench.topic, handler, key=str, value=str, ladder=("5s",))
        moment_ms = time.time_ns() // 1_000_000 - 5_000  # retention deletes records of long ago
        await node_bench.send(("k", "order"), timestamp_ms=moment_ms)
        async with running(retrying):
            await seen.reach(1)
            await node_bench.arrive(node_bench.names.retry(5_000))
            await clock.advance(5)
            await seen.reach(2)
        first, second = seen
        for record in seen:
            assert (record.topic, record.partition, record.offset) == (node_bench.topic, 0, 0)
            assert (record.key, record.value, record.timestamp_ms) == ("k", "order", moment_ms)
        assert first.headers == ()
        assert read_trail(second.headers).attempts == 1

    run(story())


def test_in_order_a_record_waits_behind_the_one_of_its_key(node_bench: Bench) -> None:
    async def story() -> None:
        clock, trials = ManualClock(), Trials({"a1": 1})
        retrying = node_bench.retrying(clock=clock)
        retrying.add(
            node_bench.topic,
            trials,
            value=str,
            ladder=("5s", "1m"),
            ordered=True,
            concurrency=4,
        )
        await node_bench.send(("a", "a1"), ("b", "b1"), ("a", "a2"), ("a", "a3"), ("b", "b2"))
        async with running(retrying):
            await trials.seen.reach(3)
            waiting = await node_bench.arrive(node_bench.names.retry(5_000), 3)
            assert texts(waiting) == ["a1", "a2", "a3"]
            assert [read_trail(each.headers).attempts for each in waiting] == [1, 0, 0]
            await clock.advance(5)
            await trials.seen.reach(6)
        assert [each for each in trials.seen if each[0] == "a"] == ["a1", "a1", "a2", "a3"]
        assert [each for each in trials.seen if each[0] == "b"] == ["b1", "b2"]

    run(story())


def test_pending_keys_are_restored_by_the_next_process(node_bench: Bench) -> None:
    async def story() -> None:
        clock, trials = ManualClock(), Trials({"a1": 1})
        first = node_bench.retrying(clock=clock)
        first.add(node_bench.topic, trials, value=str, ladder=("5s",), ordered=True)
        await node_bench.send(("a", "a1"))
        async with running(first):
            await trials.seen.reach(1)
            await node_bench.arrive(node_bench.names.retry(5_000))
        await node_bench.send(("a", "a2"))
        second = node_bench.retrying(clock=clock)
        second.add(node_bench.topic, trials, value=str, ladder=("5s",), ordered=True)
        async with running(second):
            await node_bench.arrive(node_bench.names.retry(5_000), 2)
            assert trials.seen == ["a1"]
            await clock.advance(5)
            await trials.seen.reach(3)
        assert trials.seen == ["a1", "a1", "a2"]
        assert second.counts[node_bench.topic].behind == 1

    run(story())


def test_a_duplicate_is_left_out_also_by_the_next_process(node_bench: Bench) -> None:
    async def story() -> None:
        for number in (1, 2):
            trials = Trials()
            retrying = node_bench.retrying()
            retrying.add(node_bench.topic, trials, value=str, guard=Guard("event", "1h"))
            await node_bench.send((None, f"again {number}"), headers={"event": "e-1"})
            await node_bench.send((None, f"new {number}"), headers={"event": f"f-{number}"})
            async with running(retrying):
                await trials.seen.until(lambda seen, last=f"new {number}": last in seen)  # type: ignore[misc]
            assert trials.seen == (["again 1", "new 1"] if number == 1 else ["new 2"])
            assert retrying.counts[node_bench.topic].seen == number - 1

    run(story())


def test_a_guard_of_one_process_says_so(
    node_bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        trials = Trials()
        retrying = node_bench.retrying()
        guard = Guard(lambda record: record.value, "1h", shared=False)
        retrying.add(node_bench.topic, trials, value=str, guard=guard)
        await node_bench.send((None, "one"), (None, "one"), (None, "two"))
        async with running(retrying):
            await trials.seen.reach(2)
        assert trials.seen == ["one", "two"]
        async with Admin(bootstrap=node_bench.cluster.bootstrap) as admin:
            assert node_bench.names.seen not in [each.name for each in await admin.list_topics()]

    run(story())
    assert "this process only" in caplog.text


def test_a_result_is_written_once_with_the_offset(node_bench: Bench) -> None:
    async def story() -> None:
        out = node_bench.cluster.create_topic(f"{node_bench.topic}-out", 1, {})
        done = Happenings[str]()

        async def handler(record: Anything) -> object:
            await done.add(record.value)
            match record.value:
                case "nothing":
                    return None
                case "several":
                    return [OutRecord("one", key="x"), OutRecord("two", headers={"h": "1"})]
            return record.value.upper()

        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, handler, key=str, value=str, output=out, output_value=str)
        await node_bench.send(("k", "plain"), ("k", "nothing"), ("k", "several"))
        async with running(retrying):
            await done.reach(3)
        written = await node_bench.read(out)
        pairs = [(each.key, each.value) for each in written]
        assert pairs == [(b"k", b"PLAIN"), (b"x", b"one"), (None, b"two")]
        assert written[2].header("h") == b"1"

    run(story())


def test_a_clean_stop_leaves_nothing_to_read_again(node_bench: Bench) -> None:
    async def story() -> None:
        trials = Trials()
        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, trials, value=str, concurrency=8)
        await node_bench.send(*[(f"k{n}", f"v{n}") for n in range(200)])
        async with running(retrying):
            await trials.seen.reach(200)
        assert retrying.counts[node_bench.topic].succeeded == 200
        assert await node_bench.lag() == 0
        again = Trials()
        second = node_bench.retrying()
        second.add(node_bench.topic, again, value=str)
        await node_bench.send(("k", "last"))
        async with running(second):
            await again.seen.reach(1)
        assert again.seen == ["last"]

    run(story())


def test_upkeep_empties_the_topics_of_the_ladder_and_leaves_no_lag(node_bench: Bench) -> None:
    async def story() -> None:
        clock, trials = ManualClock(), Trials({"order": 1})
        retrying = node_bench.retrying(clock=clock)
        retrying.add(node_bench.topic, trials, value=str, ladder=("5s",))
        await node_bench.send(("k", "order"), ("k", "another"))
        counts = retrying.counts[node_bench.topic]
        async with running(retrying):
            await retrying.until(lambda: counts.succeeded == 1 and counts.retried == 1)
            await clock.advance(5)
            await retrying.until(lambda: counts.succeeded == 2)
            assert retrying._session is not None
            while await node_bench.lag():
                await retrying._session._maintenance.step()
            await retrying._session._maintenance.step()
        assert await node_bench.read(node_bench.names.retry(5_000)) == []
        assert len(await node_bench.read(node_bench.topic)) == 2

    run(story())


def test_steps_that_the_ladder_no_longer_has_are_read_to_their_end(node_bench: Bench) -> None:
    async def story() -> None:
        clock, trials = ManualClock(), Trials({"order": 1})
        first = node_bench.retrying(clock=clock)
        first.add(node_bench.topic, trials, value=str, ladder=("7s", "1m"))
        await node_bench.send(("k", "order"))
        async with running(first):
            await trials.seen.reach(1)
            await node_bench.arrive(node_bench.names.retry(7_000))
        second = node_bench.retrying(clock=clock)
        second.add(node_bench.topic, trials, value=str, ladder=("5s",))
        async with running(second):
            await clock.advance(7)
            await trials.seen.reach(2)
        assert second.counts[node_bench.topic].succeeded == 1

    run(story())


def test_topics_beside_the_source_have_its_partitions_and_room_for_the_trail(
    penstock_cluster: ClusterLike,
) -> None:
    node_bench = bench(penstock_cluster, 3)

    async def story() -> None:
        retrying = node_bench.retrying()
        trials = Trials()
        retrying.add(node_bench.topic, trials, value=str, ordered=True, guard=Guard("id", "1h"))
        await node_bench.send(("k", "order"))
        async with running(retrying):
            await trials.seen.reach(1)
        names = node_bench.names
        beside = [
            *map(names.retry, (5_000, 60_000, 600_000)),
            names.dead,
            names.pending,
            names.seen,
        ]
        async with Admin(bootstrap=node_bench.cluster.bootstrap) as admin:
            for found in (await admin.describe_topics(beside)).values():
                assert len(getattr(found, "partitions", ())) == 3, found
            resources = [Resource(ResourceType.TOPIC, each) for each in beside]
            configs = await admin.describe_configs(resources)
            for each in resources:
                values = {one.name: one.value for one in configs[each]}  # type: ignore[union-attr]
                assert int(values["max.message.bytes"] or 0) > 1_048_588
            policies = [
                next(one.value for one in configs[each] if one.name == "cleanup.policy")  # type: ignore[union-attr]
                for each in resources
            ]
        assert policies == ["delete"] * 4 + ["compact", "compact,delete"]

    run(story())


def test_a_topic_that_is_not_there_is_said(node_bench: Bench) -> None:
    async def story() -> None:
        retrying = node_bench.retrying()
        retrying.add("no-such-topic", Trials())
        await retrying.run()

    with pytest.raises(
        TopicsUnfit, match=r"cannot be read: \w.*penstock topic create no-such-topic"
    ):
        run(story())


def test_latest_reads_only_what_comes_after_the_start(node_bench: Bench) -> None:
    async def story() -> None:
        clock, trials = ManualClock(), Trials({"new": 1})
        retrying = node_bench.retrying(clock=clock, settings={"auto.offset.reset": "latest"})
        retrying.add(node_bench.topic, trials, value=str, ladder=("5s",))
        await node_bench.send((None, "old"))
        async with running(retrying):
            await retrying.until(lambda: bool(retrying.partitions))
            await node_bench.send((None, "new"))
            await trials.seen.reach(1)
            await node_bench.arrive(node_bench.names.retry(5_000))
            await clock.advance(5)
            await trials.seen.reach(2)
        assert trials.seen == ["new", "new"]

    run(story())


def test_without_an_offset_and_with_none_it_ends(node_bench: Bench) -> None:
    async def story() -> None:
        retrying = node_bench.retrying(settings={"auto.offset.reset": "none"})
        retrying.add(node_bench.topic, Trials())
        await retrying.run()

    with pytest.raises(NoOffset):
        run(story())


def test_what_may_pass_begins_everything_anew_and_what_may_not_is_raised(
    node_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that was never reached is a mistake; one that was reached may come back."""
    failures: list[Exception] = [OutcomeUnknown(), CannotReach("gone"), TimedOut(), ValueError("!")]

    class Session:
        writer = SimpleNamespace(transactions=0)

        async def run(self, *_: object) -> None:
            raise failures.pop(0)

    async def open_session(*_: object) -> Session:
        if isinstance(failures[0], CannotReach):
            raise failures.pop(0)
        return Session()

    monkeypatch.setattr(retrying_module, "open_session", open_session)
    monkeypatch.setattr(retrying_module, "RESTART_PAUSE_S_MIN", 0.001)

    async def story() -> None:
        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, Trials())
        with pytest.raises(ValueError, match="!"):
            await retrying.run()
        assert retrying.restarts == 3
        failures.append(CannotReach("wrong address"))
        another = node_bench.retrying()
        another.add(node_bench.topic, Trials())
        with pytest.raises(CannotReach):
            await another.run()

    run(story())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("isolation.level", "read_uncommitted"),
        ("enable.auto.commit", True),
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("group.remote.assignor", "uniform"),
        ("transactional.id", "mine"),
        ("max.pol.records", 5),
    ],
)
def test_settings_that_would_break_the_promise_are_refused(key: str, value: Any) -> None:
    with pytest.raises(SettingRefused, match=key):
        Retrying({key: value}, bootstrap="127.0.0.1:1", group="g")


def test_letters_are_kept_until_somebody_purges_them(node_bench: Bench) -> None:
    async def story() -> None:
        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, asyncio.sleep, ladder=("5s",))  # type: ignore[arg-type]
        async with running(retrying):
            await retrying.until(lambda: bool(retrying.partitions))
        async with Admin(bootstrap=node_bench.cluster.bootstrap) as admin:
            for name in (node_bench.names.dead, node_bench.names.retry(5_000)):
                topic = Resource(ResourceType.TOPIC, name)
                told = (await admin.describe_configs([topic]))[topic]
                assert not isinstance(told, KafkaError)
                kept = {each.name: each.value for each in told}
                assert (kept["retention.ms"], kept["retention.bytes"]) == ("-1", "-1"), name
                assert kept["cleanup.policy"] == "delete", name

    run(story())


def test_a_marker_that_was_left_by_an_earlier_life_is_no_lag_for_ever(
    node_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance_module, "EVERY_S", 0.1)

    async def handler(record: Anything) -> None:
        raise ValueError(record.value)

    async def story() -> None:
        clock = ManualClock()
        for session in (1, 2):
            retrying = node_bench.retrying(clock=clock)
            retrying.add(node_bench.topic, handler, value=str, ladder=("5s",))
            async with running(retrying):
                if session == 1:
                    await node_bench.send(("k", "order"))
                    counts = retrying.counts[node_bench.topic]
                    await retrying.until(lambda: counts.retried == 1)  # noqa: B023
                    await clock.advance(5)
                    await retrying.until(lambda: counts.dead == 1)  # noqa: B023
                else:
                    while await node_bench.lag():
                        pass  # asked again: each answer is awaited
            if session == 1:
                step = (node_bench.names.retry(5_000), 0)
                async with Admin(bootstrap=node_bench.cluster.bootstrap) as admin:
                    # Behind the record, and before the marker of its transaction.
                    assert await admin.groups.commit(node_bench.names.group, {step: 1}) == {
                        step: None
                    }
                assert await node_bench.lag() == 1

    run(story())


def test_a_plain_function_is_a_handler_too(node_bench: Bench) -> None:
    async def story() -> None:
        seen: list[str] = []

        def handle(record: Anything) -> None:
            seen.append(record.value)

        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, handle, value=str)  # type: ignore[arg-type]
        await node_bench.send(("k", "order"))
        async with running(retrying):
            await retrying.until(lambda: retrying.counts[node_bench.topic].succeeded == 1)
        assert seen == ["order"]

    run(story())


def test_a_guard_that_is_none_is_refused(node_bench: Bench) -> None:
    async def story() -> None:
        with pytest.raises(TypeError, match=r"Guard\('id', window='1h'\)"):
            node_bench.retrying().add(node_bench.topic, Trials(), guard="id")  # type: ignore[arg-type]

    run(story())
