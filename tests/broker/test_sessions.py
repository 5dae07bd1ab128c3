"""Fetch sessions cost what changed."""

import pytest
from simulated_node import FETCH, PRODUCE, Bench, fetch, produce, replies

import depth
from own_thread import patch_own_thread
from penstock.broker.fetch import sessions as sessions_module
from penstock.broker.fetch.sessions import FetchSessions, FetchSet
from penstock.broker.handlers.k01_fetch import PendingFetch
from penstock.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from penstock.wire.codec import run_through
from penstock.wire.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)


def request(session_id: int, epoch: int, partitions: int = 0) -> FetchRequest:
    wanted = [FetchPartition(partition=each) for each in range(partitions)]
    topics = [FetchTopic(topic="t", partitions=wanted)] if wanted else []
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics)


def make_sessions(slots: int = 10) -> FetchSessions:
    ids = iter(range(1, 1_000))
    return FetchSessions(slots, 120_000, lambda: next(ids), run_through)


def test_a_poke_marks_only_the_partition_that_moved() -> None:
    wanted = request(0, 0, 10_000)
    session, _ = make_sessions().find(wanted, 12, 0.0)
    run_through(session.update_in_slices(wanted))
    session.dirty.clear()
    moved = session.watched["t", 4_711]
    moved.partition_changed()
    assert list(session.dirty) == [moved]


def followed_session() -> FetchSet:
    """Return a session of a follower, after its first fetch."""
    session = FetchSet(1, uses_ids=False)
    session.arrive(2, 0.0)
    session.update(request(0, 0, 3))
    session.dirty.clear()
    return session


def test_a_session_that_another_one_has_displaced_looks_at_all_its_partitions() -> None:
    session = followed_session()
    assert session.contact is not None
    session.contact.displaced = True
    session.arrive(2, 1.0)
    assert list(session.dirty) == list(session.watched.values())


def test_a_fetch_looks_at_no_partition_that_is_idle() -> None:
    session = followed_session()
    session.arrive(2, 1.0)
    assert not session.dirty


def test_a_session_of_a_consumer_is_not_one_of_a_follower() -> None:
    sessions = make_sessions()
    first, _ = sessions.find(request(0, 0, 1), 12, 0.0)
    followed = request(first.session_id, 1)
    followed.replica_id = 2
    with pytest.raises(FetchSessionIdNotFound):
        sessions.find(followed, 12, 1.0)


def test_a_session_of_a_follower_is_not_one_of_another() -> None:
    sessions = make_sessions()
    wanted = request(0, 0, 1)
    wanted.replica_id = 2
    first, _ = sessions.find(wanted, 12, 0.0)
    other = request(first.session_id, 1)
    other.replica_id = 3
    with pytest.raises(FetchSessionIdNotFound):
        sessions.find(other, 12, 1.0)


def test_a_session_goes_on_with_its_next_epoch() -> None:
    sessions = make_sessions()
    first, _ = sessions.find(request(0, 0, 1), 12, 0.0)
    again, incremental = sessions.find(request(first.session_id, 1), 12, 1.0)
    assert again is first
    assert incremental


def test_a_wrong_epoch_is_refused_and_changes_nothing() -> None:
    sessions = make_sessions()
    first, _ = sessions.find(request(0, 0, 1), 12, 0.0)
    with pytest.raises(InvalidFetchSessionEpoch):
        sessions.find(request(first.session_id, 2), 12, 1.0)
    assert sessions.find(request(first.session_id, 1), 12, 1.0)[0] is first


def test_an_unknown_session_is_refused() -> None:
    with pytest.raises(FetchSessionIdNotFound):
        make_sessions().find(request(99, 1), 12, 0.0)


def test_a_full_cache_keeps_the_sessions_that_are_in_use() -> None:
    sessions = make_sessions(slots=2)
    kept = [sessions.find(request(0, 0, 1), 12, 0.0)[0] for _ in range(2)]
    assert sessions.find(request(0, 0, 1), 12, 1.0)[0].session_id == 0
    assert len(sessions) == 2
    assert sessions.find(request(kept[0].session_id, 1), 12, 2.0)[0] is kept[0]


def test_the_session_unused_for_longest_makes_room_when_it_is_stale() -> None:
    sessions = make_sessions(slots=2)
    stale, used = (sessions.find(request(0, 0, 1), 12, 0.0)[0] for _ in range(2))
    sessions.find(request(used.session_id, 1), 12, 100_000.0)
    assert sessions.find(request(0, 0, 1), 12, 130_000.0)[0].session_id
    with pytest.raises(FetchSessionIdNotFound):
        sessions.find(request(stale.session_id, 1), 12, 130_001.0)


def test_ending_a_session_frees_its_slot() -> None:
    sessions = make_sessions(slots=1)
    first, _ = sessions.find(request(0, 0, 1), 12, 0.0)
    assert sessions.find(request(first.session_id, -1, 1), 12, 1.0)[0].session_id == 0
    assert len(sessions) == 0


class CountedFetching:
    """Counts the partitions that fetches look at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks = 0
        read = PendingFetch._read

        def counted(fetching: PendingFetch, watched: object) -> object:
            self.looks += 1
            return read(fetching, watched)  # type: ignore[arg-type]

        patch_own_thread(monkeypatch, PendingFetch, "_read", counted)


def open_session(bench: Bench, partitions: int) -> int:
    connection, peer = bench.connect()
    message = fetch("t", range(partitions), session=(0, 0))
    bench.receive(connection, bench.frame(FETCH, message))
    bench.simulation.run_until(lambda: bool(peer.sent))
    (answer,) = replies(peer, [FETCH])
    assert answer.error_code == 0
    return int(answer.session_id)


def test_a_large_session_with_one_active_partition_looks_at_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The most that one CreateTopics may make.
    partitions = 9_999 if depth.WHOLE else 999
    bench = Bench()
    bench.create_topic("t", partitions)
    session_id = open_session(bench, partitions)
    counted = CountedFetching(monkeypatch)
    connection, peer = bench.connect()
    waiting = fetch("t", [], session=(session_id, 1), wait_ms=10_000)
    bench.receive(connection, bench.frame(FETCH, waiting))
    producer, _ = bench.connect()
    bench.receive(producer, bench.frame(PRODUCE, produce("t", b"x", partition=77)))
    bench.simulation.run_until(lambda: bool(peer.sent), 1_000)
    (answer,) = replies(peer, [FETCH])
    told = [each.partition_index for topic in answer.responses for each in topic.partitions]
    assert told == [77]
    assert counted.looks <= 2


def test_a_fetch_that_waits_leaves_no_watcher_behind_when_its_peer_goes() -> None:
    bench = Bench()
    bench.create_topic("t")
    connection, _peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("t", [0], wait_ms=60_000)))
    assert len(bench.broker.find("t", 0).watchers) == 1
    connection.closed()
    assert not bench.broker.find("t", 0).watchers


def test_an_ended_session_watches_nothing() -> None:
    bench = Bench()
    bench.create_topic("t")
    session_id = open_session(bench, 1)
    assert len(bench.broker.find("t", 0).watchers) == 1
    connection, _peer = bench.connect()
    bench.receive(connection, bench.frame(FETCH, fetch("t", [], session=(session_id, -1))))
    assert not bench.broker.find("t", 0).watchers


def test_forgotten_partitions_are_not_dirty_any_more() -> None:
    fetch_set = FetchSet(1, uses_ids=False)
    fetch_set.update(request(1, 1, 2))
    message = request(1, 2)
    message.forgotten_topics_data = [ForgottenTopic(topic="t", partitions=[0])]
    fetch_set.update(message)
    assert [each.index for each in fetch_set.dirty] == [1]


def test_a_session_that_does_not_fit_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "SESSION_PARTITIONS_MAX", 100)
    sessions = make_sessions()
    assert sessions.find(request(0, 0, 101), 12, 0.0)[0].session_id == 0
    assert sessions.find(request(0, 0, 100), 12, 0.0)[0].session_id


def test_a_session_that_grows_beyond_the_room_there_is_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions_module, "SESSION_PARTITIONS_MAX", 100)
    sessions = make_sessions()
    grown, other = (sessions.find(request(0, 0, 1), 12, 0.0)[0] for _ in range(2))
    with pytest.raises(FetchSessionIdNotFound):
        sessions.find(request(grown.session_id, 1, 101), 12, 1.0)
    assert sessions.find(request(other.session_id, 1), 12, 1.0)[0] is other


def test_sessions_count_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "SESSION_PARTITIONS_MAX", 100)
    sessions = make_sessions()
    made = [sessions.find(request(0, 0, 60), 12, 0.0)[0].session_id for _ in range(3)]
    assert [bool(each) for each in made] == [True, False, False]


def test_a_session_that_ends_while_a_fetch_adds_to_it_leaves_no_watcher() -> None:
    bench = Bench()
    bench.create_topic("t", 500)
    session_id = open_session(bench, 1)
    slow, slow_peer = bench.connect()
    message = fetch("t", range(500), session=(session_id, 1))
    slow.received(memoryview(bench.frame(FETCH, message)))  # its first slice, in a turn
    other, _ = bench.connect()
    bench.receive(other, bench.frame(FETCH, fetch("t", [], session=(session_id, -1))))
    bench.settle()
    assert not any(bench.broker.find("t", index).watchers for index in range(500))
    (answer,) = replies(slow_peer, [FETCH])
    assert answer.error_code == FetchSessionIdNotFound.code


def test_a_set_that_is_closed_refers_to_nothing_any_more() -> None:
    fetch_set = FetchSet(0, uses_ids=False)
    fetch_set.update(request(0, 0, 3))
    run_through(fetch_set.close_in_slices())
    assert not fetch_set.watched
    assert not fetch_set.dirty
