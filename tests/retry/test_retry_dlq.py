"""`penstock dlq`, and what stands behind it: dead letters listed, shown, replayed once, purged."""

import asyncio
import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from retry_running import WITHOUT_ID, Bench, Happenings, ManualClock, bench, run, running

from penstock import Producer
from penstock.cli.main import main
from penstock.retry import read_trail
from penstock.retry.dead_letter import MARK, REPLAYED, Choice
from penstock.retry.dead_letters import DeadLetters, NotReplayed
from penstock.testing.external_cluster import ClusterLike


def with_letters(cluster: ClusterLike) -> Bench:
    """Return a source with three dead letters."""
    found = bench(cluster)
    run(fill(found, [("a", "one"), ("b", "two"), (None, "three")]))
    return found


@pytest.fixture
def node_bench(penstock_cluster: ClusterLike) -> Bench:
    """Three dead letters, for this test alone."""
    return with_letters(penstock_cluster)


@pytest.fixture(scope="module")
def read_bench(penstock_cluster: ClusterLike) -> Bench:
    """Three dead letters, for all tests that only read them."""
    return with_letters(penstock_cluster)


async def fill(node_bench: Bench, pairs: list[tuple[str | None, str]]) -> None:
    async def handler(record: Any) -> None:
        raise KeyError(record.value) if record.value == "two" else ValueError("no use")

    clock = ManualClock()
    retrying = node_bench.retrying(clock=clock)
    retrying.add(node_bench.topic, handler, value=str, ladder=("5s",))
    await node_bench.send(*pairs)
    counts = retrying.counts[node_bench.topic]
    async with running(retrying):
        await retrying.until(lambda: counts.retried == len(pairs))
        await node_bench.arrive(node_bench.names.retry(5_000), len(pairs))
        await clock.advance(5)
        await retrying.until(lambda: counts.dead == len(pairs))


def dlq(node_bench: Bench, *arguments: str) -> int:
    return main(
        ["--bootstrap", node_bench.cluster.bootstrap, "--format", "json", "dlq", *arguments]
    )


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_topics_are_listed_with_their_source_group_and_count(
    read_bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dlq(read_bench, "list", f"{read_bench.topic}.*") == 0
    (row,) = told(capsys)
    assert row["topic"] == read_bench.names.dead
    assert (row["source"], row["group"]) == (read_bench.topic, read_bench.names.group)
    assert (row["letters"], row["replayed"]) == (3, 0)
    assert row["oldest"] == "2023-11-14T22:13:25.000Z"
    assert dlq(read_bench, "list", "--group", read_bench.names.group) == 0
    assert len(told(capsys)) == 1
    assert dlq(read_bench, "list", "--group", "nobody") == 0
    assert told(capsys) == []


def test_letters_are_shown_with_cause_attempts_and_place(
    read_bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        dlq(
            read_bench,
            "show",
            read_bench.topic,
            "--group",
            read_bench.names.group,
            "--key",
            "b",
        )
        == 0
    )
    shown = told(capsys)
    assert (shown["key"], shown["value"], shown["attempts"]) == ("b", "two", 2)
    assert shown["cause"] == "KeyError: 'two'"
    assert shown["source"] == {"topic": read_bench.topic, "partition": 0, "offset": 1}
    assert (
        main(
            [
                "--bootstrap",
                read_bench.cluster.bootstrap,
                "dlq",
                "show",
                read_bench.names.dead,
            ]
        )
        == 0
    )
    text = capsys.readouterr().out
    assert "cause     ValueError: no use" in text and "value     three" in text


@pytest.mark.parametrize(
    ("last_failed_ms", "oldest", "shown"),
    [
        (99_999_999_999_999_999, "99999999999999999", "2, the last at 99999999999999999"),
        (None, None, "2"),
    ],
)
def test_a_letter_with_no_time_that_can_be_told_is_listed_and_shown(
    read_bench: Bench,
    capsys: pytest.CaptureFixture[str],
    last_failed_ms: int | None,
    oldest: str | None,
    shown: str,
) -> None:
    (letter, *_) = run(read_bench.read(read_bench.names.dead))
    trail = replace(read_trail(letter.headers), last_failed_ms=last_failed_ms)
    forged = read_bench.cluster.create_topic(f"forged-{uuid4().hex[:8]}.dead", 1, {})

    async def forge() -> None:
        async with Producer[Any, Any](
            WITHOUT_ID, bootstrap=read_bench.cluster.bootstrap
        ) as producer:
            await producer.send(forged, "value", headers=trail.headers(()))

    run(forge())
    assert dlq(read_bench, "list", forged) == 0
    (row,) = told(capsys)
    assert (row["letters"], row["oldest"]) == (1, oldest)
    assert main(["--bootstrap", read_bench.cluster.bootstrap, "dlq", "show", forged]) == 0
    assert f"  attempts  {shown}\n" in capsys.readouterr().out


def test_a_replay_goes_to_the_first_retry_topic_and_happens_once(
    node_bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dlq(node_bench, "replay", node_bench.names.dead, "--cause", "keyerror") == 0
    assert told(capsys)["replayed"] == 1
    for already in (1, 0):
        assert dlq(node_bench, "replay", node_bench.names.dead, "--at", "0:0") == 0
        assert told(capsys)["replayed"] == already
    assert dlq(node_bench, "list", node_bench.names.dead) == 0
    (row,) = told(capsys)
    assert (row["letters"], row["replayed"]) == (1, 2)

    async def judge() -> None:
        again = [
            each
            for each in await node_bench.read(node_bench.names.retry(5_000))
            if each.header(REPLAYED) is not None
        ]
        assert [each.value for each in again] == [b"two", b"one"]
        assert read_trail(again[0].headers).attempts == 0
        assert again[1].header(REPLAYED) == f"{node_bench.names.dead}-0@0".encode()
        assert len(await node_bench.read(node_bench.topic)) == 3, "other groups see nothing of it"
        letters = await node_bench.read(node_bench.names.dead)
        marks = [each.header(MARK) for each in letters if each.header(MARK)]
        assert marks == [b"%d" % letters[1].offset, b"0"]

    run(judge())


def test_what_was_replayed_is_tried_again_by_its_group(node_bench: Bench) -> None:
    async def story() -> None:
        handled = Happenings[str]()

        async def handler(record: Any) -> None:
            await handled.add(f"{record.value} {record.offset}")

        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, handler, value=str, ladder=("5s",))
        async with DeadLetters(bootstrap=node_bench.cluster.bootstrap) as dead:
            replayed = await dead.replay(node_bench.names.dead)
            assert replayed.topics == {node_bench.names.retry(5_000): 3}
        async with running(retrying):
            await handled.reach(3)
        assert sorted(handled) == ["one 0", "three 2", "two 1"]

    run(story())


def test_a_replay_to_the_source_is_a_new_record_there(
    node_bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dlq(node_bench, "replay", node_bench.names.dead, "--all", "--to-source") == 0
    assert told(capsys)["written_to"] == {node_bench.topic: 3}
    source = run(node_bench.read(node_bench.topic))
    assert [each.value for each in source[3:]] == [b"one", b"two", b"three"]
    assert source[3].headers == ((REPLAYED, f"{node_bench.names.dead}-0@0".encode()),)


def test_what_is_to_be_replayed_has_to_be_said(
    read_bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dlq(read_bench, "replay", read_bench.names.dead) == 2
    assert dlq(read_bench, "replay", read_bench.names.dead, "--all", "--key", "a") == 2
    assert dlq(read_bench, "replay", read_bench.names.dead, "--at", "x") == 2
    assert dlq(read_bench, "replay", read_bench.names.dead, "--all", "--dry-run") == 0
    assert told(capsys) == {
        "topic": read_bench.names.dead,
        "replayed": 0,
        "would_be_replayed": 3,
    }
    assert dlq(read_bench, "show", "no-such.dead") == 1
    assert "penstock dlq list" in capsys.readouterr().err


def test_two_replays_at_once_replay_each_letter_once(node_bench: Bench) -> None:
    async def story() -> None:
        async def replay() -> int:
            async with DeadLetters(bootstrap=node_bench.cluster.bootstrap) as dead:
                return (await dead.replay(node_bench.names.dead)).count

        results = await asyncio.gather(replay(), replay(), return_exceptions=True)
        counts = [each for each in results if isinstance(each, int)]
        again = [
            e for e in await node_bench.read(node_bench.names.retry(5_000)) if e.header(REPLAYED)
        ]
        assert sum(counts) == len(again) == 3 or (not counts and not again)

    run(story())


def test_a_replay_that_another_one_takes_over_from_says_so(
    node_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with (
            DeadLetters(bootstrap=node_bench.cluster.bootstrap) as first,
            DeadLetters(bootstrap=node_bench.cluster.bootstrap) as second,
        ):
            written = first._write

            async def overtaken(*arguments: Any) -> None:
                await second.replay(node_bench.names.dead)
                await written(*arguments)

            monkeypatch.setattr(first, "_write", overtaken)
            with pytest.raises(NotReplayed, match=r"another replay .* has begun .* dlq list"):
                await first.replay(node_bench.names.dead)
        again = [
            e for e in await node_bench.read(node_bench.names.retry(5_000)) if e.header(REPLAYED)
        ]
        assert len(again) == 3

    run(story())


def test_a_letter_that_others_have_put_there_is_left_out(node_bench: Bench) -> None:
    async def story() -> None:
        async with Producer[Any, Any](
            WITHOUT_ID, bootstrap=node_bench.cluster.bootstrap
        ) as producer:
            await producer.send(node_bench.names.dead, "stranger")
        async with DeadLetters(bootstrap=node_bench.cluster.bootstrap) as dead:
            replayed = await dead.replay(node_bench.names.dead, Choice())
        assert (replayed.count, replayed.without_trail) == (3, 1)

    run(story())


def test_without_a_retry_topic_the_source_is_the_way_out(penstock_cluster: ClusterLike) -> None:
    node_bench = bench(penstock_cluster)

    async def story() -> None:
        async def handler(_record: Any) -> None:
            raise ValueError

        retrying = node_bench.retrying()
        retrying.add(node_bench.topic, handler, ladder=())
        await node_bench.send(("k", "v"))
        async with running(retrying):
            await retrying.until(lambda: retrying.counts[node_bench.topic].dead == 1)
        async with DeadLetters(bootstrap=node_bench.cluster.bootstrap) as dead:
            with pytest.raises(NotReplayed, match="Replay to the source"):
                await dead.replay(node_bench.names.dead)
            assert (await dead.replay(node_bench.names.dead, to="source")).count == 1

    run(story())


def test_a_purge_leaves_a_topic_alone_that_holds_no_dead_letters(
    read_bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dlq(read_bench, "purge", read_bench.topic, "--yes") == 1
    assert "3 records that are no dead letters" in capsys.readouterr().err
    assert dlq(read_bench, "purge", read_bench.topic, "--dry-run") == 1
    assert dlq(read_bench, "purge", read_bench.names.retry(5_000), "--yes") == 1, (
        "what waits is not dead"
    )


def test_a_purge_goes_by_what_a_topic_holds_and_not_by_its_name(
    node_bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    walking = node_bench.cluster.create_topic(f"{node_bench.topic}.walking.dead", 1, {})
    renamed = node_bench.cluster.create_topic(f"{node_bench.topic}.graveyard", 1, {})

    async def copy() -> None:
        async with Producer[Any, Any](
            WITHOUT_ID, bootstrap=node_bench.cluster.bootstrap
        ) as producer:
            await producer.send(walking, "mine")
            for each in await node_bench.read(node_bench.names.dead):
                await producer.send(renamed, each.value, each.key, headers=each.headers)

    run(copy())
    assert dlq(node_bench, "purge", walking, "--yes") == 1
    assert "1 records that are no dead letters" in capsys.readouterr().err
    assert dlq(node_bench, "purge", renamed, "--yes") == 0
    assert told(capsys) == [{"topic": renamed, "partition": 0, "letters": 3}]
    assert dlq(node_bench, "purge", walking, "--force") == 2, "it asks, however hard it is told"
    capsys.readouterr()
    assert dlq(node_bench, "purge", walking, "--force", "--yes") == 0
    assert told(capsys) == [{"topic": walking, "partition": 0, "letters": 1}]
    assert run(node_bench.read(walking)) == []


def test_a_purge_asks_first_and_can_leave_what_was_not_replayed(
    node_bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dlq(node_bench, "purge", node_bench.names.dead) == 2
    assert "--yes" in capsys.readouterr().err
    assert dlq(node_bench, "replay", node_bench.names.dead, "--at", "0:0") == 0
    capsys.readouterr()
    assert dlq(node_bench, "purge", node_bench.names.dead, "--replayed", "--yes") == 0
    assert told(capsys) == [{"topic": node_bench.names.dead, "partition": 0, "letters": 1}]
    assert dlq(node_bench, "list", node_bench.names.dead) == 0
    assert told(capsys)[0]["letters"] == 2
    assert dlq(node_bench, "purge", node_bench.names.dead, "--dry-run") == 0
    assert told(capsys)[0]["letters"] == 2
    assert dlq(node_bench, "purge", node_bench.names.dead, "--yes") == 0
    capsys.readouterr()
    assert dlq(node_bench, "list", node_bench.names.dead) == 0
    assert told(capsys)[0]["letters"] == 0
