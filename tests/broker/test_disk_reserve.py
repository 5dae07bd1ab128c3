"""A disk that is nearly full: records are refused, the metadata log goes on, and so do readers."""

import pytest
from simulated_node import FETCH, PRODUCE, Bench, fetch, produce, replies

from penstock.broker.storage.log_dir import LogDirectory
from penstock.world import TooManyFiles

STORAGE_ERROR = 56
RESERVE = 1_000_000


@pytest.fixture
def bench() -> Bench:
    bench = Bench({"log.disk.reserve.bytes": str(RESERVE), "log.dirs": "one,two"})
    bench.create_topic("t")
    return bench


def directory(bench: Bench) -> LogDirectory:
    return bench.broker.replicas.by_name["t"][0].directory


def leave(bench: Bench, free_bytes: int) -> None:
    bench.world.disks[directory(bench).disk.root].free = free_bytes
    bench.settle(3_000)


def send(bench: Bench) -> int:
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(PRODUCE, produce("t", b"x")))
    bench.settle(50)
    (answer,) = replies(peer, [PRODUCE])
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def test_records_are_refused_when_less_than_the_reserve_is_left(bench: Bench) -> None:
    leave(bench, RESERVE - 1)
    assert send(bench) == STORAGE_ERROR


def test_records_are_taken_while_the_reserve_is_free(bench: Bench) -> None:
    leave(bench, RESERVE)
    assert send(bench) == 0


def test_writes_go_on_when_there_is_room_again(bench: Bench) -> None:
    leave(bench, RESERVE - 1)
    leave(bench, 2 * RESERVE)
    assert send(bench) == 0


def test_a_little_more_room_does_not_make_it_flap(bench: Bench) -> None:
    leave(bench, RESERVE - 1)
    leave(bench, RESERVE + 1)
    assert send(bench) == STORAGE_ERROR


def test_readers_are_served_meanwhile(bench: Bench) -> None:
    assert send(bench) == 0
    leave(bench, 0)
    connection, peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0])))
    bench.settle(50)
    (answer,) = replies(peer, [FETCH])
    partition = answer.responses[0].partitions[0]
    assert (partition.error_code, bool(partition.records)) == (0, True)


def test_topics_are_made_meanwhile_where_there_is_room(bench: Bench) -> None:
    leave(bench, 0)
    bench.create_topic("other", partitions=3)
    full = directory(bench)
    made = bench.broker.replicas.by_name["other"].values()
    assert all(each.directory is not full for each in made)


def test_a_small_disk_keeps_a_twentieth(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = bench.world.disks[directory(bench).disk.root]
    monkeypatch.setattr(disk, "total_bytes", lambda: 20_000)
    leave(bench, 1_000)
    assert send(bench) == 0
    leave(bench, 999)
    assert send(bench) == STORAGE_ERROR


def test_the_reserve_can_be_changed_while_it_runs(bench: Bench) -> None:
    leave(bench, RESERVE - 1)
    settings = bench.broker.settings
    smaller = settings.__class__.of(
        bench.broker.config.with_dynamic({"log.disk.reserve.bytes": "0"}, {})
    )
    bench.broker.settings = smaller
    bench.settle(3_000)
    assert send(bench) == 0


def test_a_look_that_fails_without_harm_is_followed_by_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = bench.world.disks[directory(bench).disk.root]
    plenty = disk.free_bytes

    def fail() -> int:
        monkeypatch.setattr(disk, "free_bytes", plenty)
        raise TooManyFiles("injected")

    monkeypatch.setattr(disk, "free_bytes", fail)
    bench.settle(3_000)
    leave(bench, RESERVE - 1)
    assert send(bench) == STORAGE_ERROR


def send_at_once(bench: Bench, count: int) -> list[int]:
    """So many requests, before anybody looks at the disk again."""
    connection, peer = bench.connect()
    for _ in range(count):
        bench.receive(connection, bench.frame(PRODUCE, produce("t", b"x" * 1_000)))
    bench.settle(5)
    answers = replies(peer, [PRODUCE] * count)
    return [each.responses[0].partition_responses[0].error_code for each in answers]


def test_what_is_written_between_two_looks_stays_above_the_reserve(bench: Bench) -> None:
    leave(bench, RESERVE + 10_000)
    codes = send_at_once(bench, 20)
    taken = codes.index(STORAGE_ERROR)
    assert codes == [0] * taken + [STORAGE_ERROR] * (20 - taken)
    assert 4 <= taken <= 9
    assert bench.broker.find("t", 0).log.size < 10_000


def test_what_was_refused_between_two_looks_is_taken_when_there_was_room(bench: Bench) -> None:
    leave(bench, RESERVE + 10_000)
    assert STORAGE_ERROR in send_at_once(bench, 20)
    leave(bench, 2 * RESERVE)
    assert send(bench) == 0


def test_with_plenty_of_room_nothing_is_refused_between_two_looks(bench: Bench) -> None:
    assert set(send_at_once(bench, 100)) == {0}


def test_without_a_reserve_records_may_fill_the_disk() -> None:
    bench = Bench({"log.disk.reserve.bytes": "0"})
    bench.create_topic("t")
    leave(bench, 1_000)
    assert set(send_at_once(bench, 20)) == {0}
