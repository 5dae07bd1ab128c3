"""Outbound connections of a node: every request gets one answer or one reason, in bounded time."""

import pytest
from link_peers import ADDRESS, DESCRIBE_CLUSTER, SETTINGS, VOTE, LinkWorlds

from depth import seeds
from penstock.broker.links.broker_links import BrokerLinks
from penstock.broker.links.link_connection import LinkFailed
from penstock.broker.links.links import LinkPurpose, Links
from penstock.broker.links.quorum_transport import LinkTransport
from penstock.broker.links.response_frames import RESPONSE_BYTES_MAX
from penstock.controller.delta import Delta
from penstock.controller.image import Image
from penstock.errors import UnsupportedVersion
from penstock.raft.voters import VoterEndpoint
from penstock.wire.messages.k52_vote import RequestPartitionData, RequestTopicData, VoteRequest
from penstock.wire.messages.k60_describe_cluster import DescribeClusterResponse


def reason(result: object) -> str:
    assert isinstance(result, LinkFailed), result
    return str(result)


def test_a_request_gets_its_response_in_the_highest_common_version() -> None:
    worlds = LinkWorlds()
    worlds.node.serves[DESCRIBE_CLUSTER] = (0, 1)
    answer = worlds.ask().wait()
    assert isinstance(answer, DescribeClusterResponse)
    assert answer.cluster_id == "v1"


def test_requests_share_a_connection_and_are_answered_in_order() -> None:
    worlds = LinkWorlds()
    asked = [worlds.ask() for _ in range(20)]
    worlds.run_until(lambda: all(each.results for each in asked))
    times = [each.at_ms for each in asked]
    assert times == sorted(times)  # type: ignore[type-var]
    assert len(worlds.node.peers) == 1


def test_versions_are_asked_once_per_connection() -> None:
    worlds = LinkWorlds()
    worlds.ask().wait()
    worlds.ask().wait()
    assert worlds.node.versions_asked == [4]


def test_a_peer_that_knows_an_older_api_versions_is_asked_in_the_oldest() -> None:
    worlds = LinkWorlds()
    worlds.node.newest_api_versions = 3
    assert isinstance(worlds.ask().wait(), DescribeClusterResponse)
    assert worlds.node.versions_asked == [4, 0]


@pytest.mark.parametrize(
    ("serves", "text"),
    [
        (None, "far:9092 does not serve DescribeCluster"),
        ((7, 9), "far:9092 serves DescribeCluster in versions 7 to 9, this node speaks 0 to 2"),
    ],
)
def test_a_request_that_the_peer_does_not_serve_fails_and_the_link_stays(
    serves: tuple[int, int] | None, text: str
) -> None:
    worlds = LinkWorlds()
    del worlds.node.serves[DESCRIBE_CLUSTER]
    if serves is not None:
        worlds.node.serves[DESCRIBE_CLUSTER] = serves
    result = worlds.ask().wait()
    assert isinstance(result, UnsupportedVersion)
    assert result.message == text
    worlds.ask().wait()
    assert len(worlds.node.peers) == 1


def test_where_nothing_listens_the_request_fails_with_that_reason() -> None:
    result = LinkWorlds(listens=False).ask().wait()
    assert reason(result) == "far:9092 cannot be reached: nothing listens there"
    assert isinstance(result, LinkFailed)
    assert result.unsent


def test_a_connection_that_hangs_ends_at_its_time_limit() -> None:
    worlds = LinkWorlds()
    worlds.simulation.network.separate(["near"], ["far"])
    asked = worlds.ask(60_000)
    assert reason(asked.wait()) == "far:9092 cannot be reached: no connection within 500 ms"


def test_a_peer_that_does_not_tell_its_versions_is_given_up() -> None:
    worlds = LinkWorlds()
    worlds.node.tells_versions = False
    result = worlds.ask(60_000).wait()
    assert reason(result) == "far:9092 did not answer ApiVersions within 500 ms"


def test_the_deadline_of_a_request_includes_the_wait_for_its_connection() -> None:
    worlds = LinkWorlds()
    worlds.simulation.network.separate(["near"], ["far"])
    asked = worlds.ask(100)
    assert reason(asked.wait()) == "far:9092 gave no answer to DescribeCluster within 100 ms"
    assert asked.at_ms == pytest.approx(100, abs=1)


def test_a_missed_deadline_breaks_the_connection_and_fails_what_is_behind() -> None:
    worlds = LinkWorlds()
    worlds.node.answers = False
    first, second = worlds.ask(200), worlds.ask(5_000)
    text = "far:9092 gave no answer to DescribeCluster within 200 ms"
    assert reason(first.wait()) == text
    assert reason(second.wait()) == text
    assert not any(each.unsent for each in first.results + second.results)  # type: ignore[union-attr]


def test_a_broken_link_connects_again_for_the_next_request() -> None:
    worlds = LinkWorlds()
    worlds.ask().wait()
    worlds.node.peers[0].close()
    assert isinstance(worlds.ask().wait(), LinkFailed | DescribeClusterResponse)
    assert isinstance(worlds.ask().wait(), DescribeClusterResponse)


def test_pauses_between_attempts_grow_up_to_their_limit() -> None:
    worlds = LinkWorlds(listens=False)
    pauses, before = [], 0.0
    for _ in range(8):
        asked = worlds.ask(60_000)
        asked.wait()
        assert asked.at_ms is not None
        pauses.append(asked.at_ms - before)
        before = asked.at_ms
    assert pauses[1] < 80
    assert 320 <= pauses[-1] <= 490


def test_a_connection_that_opens_ends_the_growth_of_pauses() -> None:
    worlds = LinkWorlds(listens=False)
    for _ in range(8):
        worlds.ask(60_000).wait()
    worlds.node.listening = worlds.far.network.listen(*ADDRESS, worlds.node._accept)
    assert isinstance(worlds.ask(60_000).wait(), DescribeClusterResponse)
    worlds.node.listening.close()
    worlds.far.kill()
    before = worlds.simulation.now_ms
    failed = [worlds.ask(60_000) for _ in range(2)]
    failed[0].wait()
    after = worlds.ask(60_000)
    after.wait()
    assert after.at_ms is not None
    assert after.at_ms - before < 250


def test_a_cancelled_request_gets_no_answer_and_its_followers_do() -> None:
    worlds = LinkWorlds()
    cancelled, other = worlds.ask(), worlds.ask()
    worlds.run_until(lambda: len(worlds.node.requests) == 2)
    cancelled.request.cancel()
    assert isinstance(other.wait(), DescribeClusterResponse)
    assert not cancelled.results


def test_a_request_cancelled_before_its_connection_is_not_sent() -> None:
    worlds = LinkWorlds()
    cancelled, other = worlds.ask(), worlds.ask()
    cancelled.request.cancel()
    other.wait()
    assert len(worlds.node.requests) == 1


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "a frame of 1213486160 bytes"),
        ((RESPONSE_BYTES_MAX + 1).to_bytes(4), f"a frame of {RESPONSE_BYTES_MAX + 1} bytes"),
        (b"\0\0\0\3abc", "a frame of 3 bytes"),
        (b"\0\0\0\5\0\0\0\x7f\0", "it has correlation id 127"),
        (b"\0\0\0\x07\0\0\0\2\0\0\0", "sent no response to DescribeCluster"),
    ],
)
def test_bytes_that_are_no_response_break_the_connection(raw: bytes, text: str) -> None:
    worlds = LinkWorlds()
    worlds.node.raw = raw
    assert text in reason(worlds.ask().wait())
    worlds.node.raw = None
    assert isinstance(worlds.ask().wait(), DescribeClusterResponse)


def test_a_response_without_a_request_breaks_the_connection() -> None:
    worlds = LinkWorlds()
    worlds.ask().wait()
    worlds.node.peers[0].send([b"\0\0\0\4\0\0\0\1"])
    worlds.run_until(lambda: worlds.link.versions is None)


def test_a_closed_link_fails_its_requests() -> None:
    worlds = LinkWorlds()
    worlds.node.answers = False
    asked = worlds.ask()
    worlds.run_until(lambda: bool(worlds.node.requests))
    worlds.link.close()
    assert reason(asked.wait()) == "the link to far:9092 is closed"


def test_each_purpose_has_a_link_of_its_own() -> None:
    worlds = LinkWorlds()
    links = Links(worlds.near, SETTINGS)
    heartbeat = links.to(2, ADDRESS, LinkPurpose.HEARTBEAT)
    assert links.to(2, ADDRESS, LinkPurpose.HEARTBEAT) is heartbeat
    assert links.to(2, ADDRESS, LinkPurpose.FETCH) is not heartbeat


def test_a_node_that_moved_gets_another_link() -> None:
    worlds = LinkWorlds()
    links = Links(worlds.near, SETTINGS)
    old = links.to(2, ADDRESS, LinkPurpose.SHORT)
    new = links.to(2, ("elsewhere", 9092), LinkPurpose.SHORT)
    assert new is not old
    assert new.address == ("elsewhere", 9092)


@pytest.mark.parametrize("seed", seeds(300, few=40))
def test_every_request_ends_once_whatever_breaks(seed: int) -> None:
    worlds = LinkWorlds(seed)
    chance = worlds.simulation.chance
    asked, cancelled = [], 0
    for _ in range(20):
        asked.append(worlds.ask(chance.choice((50, 500, 5_000))))
        worlds.node.answers = chance.random() < 0.8
        worlds.node.tells_versions = chance.random() < 0.9
        if chance.random() < 0.2:
            worlds.simulation.network.break_one()
        if chance.random() < 0.1:
            asked[-1].request.cancel()
            cancelled += 1
        worlds.simulation.run_for(chance.uniform(0, 400))
    worlds.simulation.run_for(10_000)
    counts = sorted(len(each.results) for each in asked)
    assert counts == [0] * cancelled + [1] * (20 - cancelled)


def test_links_to_a_broker_whose_registration_has_ended_are_closed() -> None:
    worlds = LinkWorlds()
    links = Links(worlds.near, SETTINGS)
    data = links.to(2, ADDRESS, LinkPurpose.TRANSACTION)
    quorum = links.to(2, ADDRESS, LinkPurpose.QUORUM)
    between = BrokerLinks(links, worlds.near.timers, lambda _node_id: ADDRESS)
    between.follow(Image(), Delta(brokers=(2,)))
    assert links.to(2, ADDRESS, LinkPurpose.TRANSACTION) is not data
    assert links.to(2, ADDRESS, LinkPurpose.QUORUM) is quorum


@pytest.mark.parametrize(("pre_vote", "code"), [(True, UnsupportedVersion.code), (False, None)])
def test_a_pre_vote_never_reaches_a_voter_that_would_take_it_for_a_vote(
    pre_vote: bool, code: int | None
) -> None:
    worlds = LinkWorlds()
    worlds.node.serves[VOTE] = (0, 1)
    transport = LinkTransport(Links(worlds.near, SETTINGS), worlds.near.timers)
    partition = RequestPartitionData(replica_epoch=1, replica_id=1, pre_vote=pre_vote)
    request = VoteRequest(topics=[RequestTopicData(partitions=[partition])])
    answers: list[object] = []
    transport.send(2, VoterEndpoint("C", *ADDRESS), request, 200, answers.append)
    worlds.run_until(lambda: bool(answers))
    assert getattr(answers[0], "error_code", None) == code
    assert len(worlds.node.votes) == (0 if pre_vote else 1)
