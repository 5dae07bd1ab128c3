"""Fetch sessions (KIP-227): incremental answers, epochs, ids, forgotten topics, eviction."""

from collections.abc import Iterator

import pytest
from api_asking import (
    LONG_POLL_MS,
    Asker,
    asking,
    batch,
    fetch_request,
    fetch_topic,
    new_topic,
    produce,
    topic_id,
)

from penstock import errors
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k01_fetch as k01

pytest_plugins = ["api_fixtures"]

NEW_SESSION = (0, 0)
SESSION_VERSIONS = range(7, 19)
SLOTS = 2


@pytest.fixture
def two(penstock_cluster: Cluster) -> str:
    """A topic of two partitions."""
    return new_topic(penstock_cluster, partitions=2)


def _told(response: k01.FetchResponse) -> dict[int, int]:
    """Each partition in the answer, and how many bytes of records it has."""
    return {
        each.partition_index: len(each.records or b"")
        for topic in response.responses
        for each in topic.partitions
    }


def _begin(asker: Asker, topic: str | bytes, version: int = 12) -> int:
    """A session over two partitions; its id."""
    wanted = fetch_topic(topic, {0: 0, 1: 0})
    answer = asker.ask(fetch_request(wanted, session=NEW_SESSION), version)
    assert answer.error_code == 0
    assert set(_told(answer)) == {0, 1}
    session_id: int = answer.session_id
    return session_id


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_session_is_made_on_request(asker: Asker, two: str, version: int) -> None:
    name = topic_id(asker, two) if version >= 13 else two
    assert _begin(asker, name, version) > 0


@pytest.mark.parametrize("version", [4, 6, 12])
def test_without_a_request_there_is_no_session(asker: Asker, two: str, version: int) -> None:
    answer = asker.ask(fetch_request(fetch_topic(two, {0: 0})), version)
    assert answer.session_id == 0


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_an_incremental_fetch_tells_only_what_is_new(asker: Asker, two: str, version: int) -> None:
    name = topic_id(asker, two) if version >= 13 else two
    session = _begin(asker, name, version)
    assert _told(asker.ask(fetch_request(session=(session, 1)), version)) == {}
    produce(asker, two, batch(b"a"), partition=1)
    told = _told(asker.ask(fetch_request(session=(session, 2)), version))
    assert list(told) == [1]
    assert told[1] > 0


def test_records_are_told_until_the_client_moves_on(asker: Asker, two: str) -> None:
    session = _begin(asker, two)
    produce(asker, two, batch(b"a"), partition=0)
    first = _told(asker.ask(fetch_request(session=(session, 1)), 12))
    again = _told(asker.ask(fetch_request(session=(session, 2)), 12))
    moved = fetch_request(fetch_topic(two, {0: 1}), session=(session, 3))
    assert first == again
    assert _told(asker.ask(moved, 12)) == {}


def test_a_high_watermark_that_moved_is_told_without_records(asker: Asker, two: str) -> None:
    wanted = fetch_topic(two, {0: 0})
    session = asker.ask(fetch_request(wanted, session=NEW_SESSION), 12).session_id
    produce(asker, two, batch(b"a"), partition=0)
    moved = fetch_request(fetch_topic(two, {0: 1}), session=(session, 1))
    [told] = asker.ask(moved, 12).responses
    [one] = told.partitions
    assert (one.high_watermark, one.records or b"") == (1, b"")


def test_a_partition_can_join_a_session(asker: Asker, two: str) -> None:
    wanted = fetch_topic(two, {0: 0})
    session = asker.ask(fetch_request(wanted, session=NEW_SESSION), 12).session_id
    produce(asker, two, batch(b"a"), partition=1)
    joined = fetch_request(fetch_topic(two, {1: 0}), session=(session, 1))
    assert list(_told(asker.ask(joined, 12))) == [1]


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_a_forgotten_partition_is_not_told_again(asker: Asker, two: str, version: int) -> None:
    name = topic_id(asker, two) if version >= 13 else two
    session = _begin(asker, name, version)
    gone = k01.ForgottenTopic(partitions=[1])
    if isinstance(name, bytes):
        gone.topic_id = name
    else:
        gone.topic = name
    asker.ask(fetch_request(session=(session, 1), forgotten=[gone]), version)
    for index in (0, 1):
        produce(asker, two, batch(b"a"), partition=index)
    assert list(_told(asker.ask(fetch_request(session=(session, 2)), version))) == [0]


def test_an_incremental_fetch_waits_for_an_append(
    asker: Asker, two: str, penstock_cluster: Cluster
) -> None:
    session = _begin(asker, two)
    asker.send(fetch_request(session=(session, 1), wait_ms=LONG_POLL_MS), 12)
    assert asker.is_quiet()
    with asking(penstock_cluster) as other:
        produce(other, two, batch(b"news"), partition=1)
    assert list(_told(asker.receive())) == [1]


def test_a_session_goes_on_over_another_connection(
    asker: Asker, two: str, penstock_cluster: Cluster
) -> None:
    session = _begin(asker, two)
    with asking(penstock_cluster) as other:
        answer = other.ask(fetch_request(session=(session, 1)), 12)
    assert (answer.error_code, answer.session_id) == (0, session)


# -- what is wrong with a session


@pytest.mark.parametrize("epoch", [2, 5, 2**31 - 1])
def test_a_wrong_epoch_is_refused(asker: Asker, two: str, epoch: int) -> None:
    session = _begin(asker, two)
    answer = asker.ask(fetch_request(session=(session, epoch)), 12)
    assert answer.error_code == errors.InvalidFetchSessionEpoch.code
    assert answer.responses == []


def test_an_epoch_is_used_once(asker: Asker, two: str) -> None:
    session = _begin(asker, two)
    asker.ask(fetch_request(session=(session, 1)), 12)
    again = asker.ask(fetch_request(session=(session, 1)), 12)
    assert again.error_code == errors.InvalidFetchSessionEpoch.code


@pytest.mark.parametrize("version", SESSION_VERSIONS)
def test_an_unknown_session_is_refused(asker: Asker, version: int) -> None:
    answer = asker.ask(fetch_request(session=(2**31 - 2, 1)), version)
    assert answer.error_code == errors.FetchSessionIdNotFound.code
    assert answer.session_id == 0


def test_a_session_by_names_does_not_change_to_ids(asker: Asker, two: str) -> None:
    session = _begin(asker, two, 12)
    wanted = fetch_topic(topic_id(asker, two), {0: 0})
    answer = asker.ask(fetch_request(wanted, session=(session, 1)), 13)
    assert answer.error_code == errors.FetchSessionTopicIdError.code


def test_a_session_by_ids_does_not_change_to_names(asker: Asker, two: str) -> None:
    session = _begin(asker, topic_id(asker, two), 13)
    answer = asker.ask(fetch_request(fetch_topic(two, {0: 0}), session=(session, 1)), 12)
    assert answer.error_code == errors.FetchSessionTopicIdError.code


def test_the_final_epoch_ends_a_session(asker: Asker, two: str) -> None:
    session = _begin(asker, two)
    last = asker.ask(fetch_request(fetch_topic(two, {0: 0}), session=(session, -1)), 12)
    after = asker.ask(fetch_request(session=(session, 1)), 12)
    assert (last.error_code, last.session_id) == (0, 0)
    assert after.error_code == errors.FetchSessionIdNotFound.code


def test_epoch_0_replaces_a_session(asker: Asker, two: str) -> None:
    session = _begin(asker, two)
    renewed = asker.ask(fetch_request(fetch_topic(two, {0: 0}), session=(session, 0)), 12)
    after = asker.ask(fetch_request(session=(session, 1)), 12)
    assert renewed.session_id not in (0, session)
    assert after.error_code == errors.FetchSessionIdNotFound.code


def test_an_unknown_topic_in_a_session_is_told_each_time(asker: Asker) -> None:
    wanted = fetch_topic("no-such-topic", {0: 0})
    first = asker.ask(fetch_request(wanted, session=NEW_SESSION), 12)
    again = asker.ask(fetch_request(session=(first.session_id, 1)), 12)
    codes = [each.responses[0].partitions[0].error_code for each in (first, again)]
    assert codes == [errors.UnknownTopicOrPartition.code] * 2


def test_a_session_hears_of_a_topic_that_is_made_later(
    asker: Asker, penstock_cluster: Cluster
) -> None:
    name = f"made-later-{id(asker)}"
    wanted = fetch_topic(name, {0: 0})
    session = asker.ask(fetch_request(wanted, session=NEW_SESSION), 12).session_id
    penstock_cluster.create_topic(name)
    produce(asker, name, batch(b"a"))
    answer = asker.ask(fetch_request(session=(session, 1)), 12)
    assert _told(answer)[0] > 0


def test_a_session_by_id_outlives_its_topic_with_an_error(
    asker: Asker, two: str, penstock_cluster: Cluster
) -> None:
    from penstock.wire.messages import k20_delete_topics as k20

    session = _begin(asker, topic_id(asker, two), 13)
    asker.ask(k20.DeleteTopicsRequest(topic_names=[two], timeout_ms=5_000), 5)
    penstock_cluster.create_topic(two, 2)
    answer = asker.ask(fetch_request(session=(session, 1)), 13)
    codes = {each.error_code for topic in answer.responses for each in topic.partitions}
    assert codes == {errors.UnknownTopicId.code}


# -- a node with room for few sessions


@pytest.fixture(scope="module")
def crowded() -> Iterator[Cluster]:
    with Cluster({"max.incremental.fetch.session.cache.slots": str(SLOTS)}) as cluster:
        yield cluster


def test_without_room_a_fetch_is_answered_without_a_session(crowded: Cluster) -> None:
    topic = new_topic(crowded)
    with asking(crowded) as asker:
        ids = [
            asker.ask(fetch_request(fetch_topic(topic, {0: 0}), session=NEW_SESSION), 12).session_id
            for _ in range(SLOTS + 1)
        ]
        assert all(ids[:SLOTS])
        assert ids[SLOTS] == 0
        for session in ids[:SLOTS]:
            asker.ask(fetch_request(session=(session, -1)), 12)


def test_an_ended_session_makes_room(crowded: Cluster) -> None:
    topic = new_topic(crowded)
    wanted = fetch_topic(topic, {0: 0})
    with asking(crowded) as asker:
        for _ in range(SLOTS * 2):
            session = asker.ask(fetch_request(wanted, session=NEW_SESSION), 12).session_id
            assert session > 0
            asker.ask(fetch_request(session=(session, -1)), 12)
