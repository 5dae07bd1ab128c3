"""Access within a node: routes of Produce, fetch sessions, parked requests, envelopes."""

import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from simulated_node import FakePeer, fetch, metadata, produce

from penstock.broker.network.connection import BrokerConnection
from penstock.controller.acls import acl_of
from penstock.credentials.acls import Acl, AclOperation, AclResourceType
from penstock.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    InvalidRequest,
    PrincipalDeserializationFailure,
    TopicAuthorizationFailed,
    UnsupportedVersion,
)
from penstock.node.opening import StartRefused
from penstock.wire.codec import write
from penstock.wire.frame import request_frame
from penstock.wire.messages import k01_fetch as k01
from penstock.wire.messages import k10_find_coordinator as k10
from penstock.wire.messages import k11_join_group as k11
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k30_create_acls as k30
from penstock.wire.messages import k31_delete_acls as k31
from penstock.wire.messages import k58_envelope as k58
from penstock.wire.messages import k68_consumer_group_heartbeat as k68
from penstock.wire.messages import k69_consumer_group_describe as k69
from penstock.wire.records.principal import DefaultPrincipalData

sys.path.insert(0, str(Path(__file__).parent.parent / "security"))
from access_servers import ADMIN, CALLER, NOBODY, SimulatedServer, answer_in

Op, Kind = AclOperation, AclResourceType
TOPIC = Acl(Kind.TOPIC, "orders", "User:ann", Op.ALL)
DENIED = TopicAuthorizationFailed.code


@pytest.fixture
def server() -> Iterator[SimulatedServer]:
    with SimulatedServer() as opened:
        wanted = k19.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
        opened.ask(ADMIN, k19.CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 7)
        yield opened


def allow(server: SimulatedServer, acl: Acl) -> None:
    creation = k30.AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    answer = server.ask(ADMIN, k30.CreateAclsRequest(creations=[creation]), 3)
    assert answer.results[0].error_code == 0


def revoke(server: SimulatedServer, acl: Acl) -> None:
    wanted = k31.DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.resource_name,
        principal_filter=acl.principal,
        host_filter=None,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    answer = server.ask(ADMIN, k31.DeleteAclsRequest(filters=[wanted]), 3)
    assert len(answer.filter_results[0].matching_acls) == 1


def produced(server: SimulatedServer, caller: str = CALLER) -> int:
    answer = server.ask(caller, produce("orders", b"value"), 11)
    return int(answer.responses[0].partition_responses[0].error_code)


def fetched(answer: k01.FetchResponse) -> list[int]:
    return [each.error_code for topic in answer.responses for each in topic.partitions]


def test_a_produce_route_is_its_callers_alone(server: SimulatedServer) -> None:
    allow(server, TOPIC)
    assert [produced(server) for _ in range(2)] == [0, 0]
    misses = server.bench.broker.produce_cache.misses
    assert produced(server) == 0
    assert server.bench.broker.produce_cache.misses == misses, "the route was used"
    assert produced(server, "bob") == DENIED
    assert produced(server) == 0


def test_a_revoked_producer_appends_nothing_more(server: SimulatedServer) -> None:
    allow(server, TOPIC)
    assert [produced(server) for _ in range(3)] == [0, 0, 0]
    revoke(server, TOPIC)
    log = server.bench.broker.find("orders", 0).log
    end_offset = log.end_offset
    assert produced(server) == DENIED
    assert log.end_offset == end_offset


def test_rules_hold_from_the_first_request_of_the_next_life(server: SimulatedServer) -> None:
    allow(server, TOPIC)
    with SimulatedServer(disks=server.bench.stop()) as again:
        assert (produced(again), produced(again, "bob")) == (0, DENIED)


def test_a_login_changes_the_routes_of_a_connection(server: SimulatedServer) -> None:
    connection, _ = server.connect(CALLER)
    before = connection.produce_routes
    connection.caller = connection.caller._replace(host="10.0.0.2")
    assert connection.produce_routes is not before


def test_a_session_is_checked_again_when_the_rules_change(server: SimulatedServer) -> None:
    allow(server, TOPIC)
    produced(server)
    first = server.ask(CALLER, fetch("orders", [0], session=(0, 0)), 12)
    assert fetched(first) == [0]
    revoke(server, TOPIC)
    produced(server, ADMIN)
    later = server.ask(CALLER, fetch("orders", [], session=(first.session_id, 1), offset=1), 12)
    assert fetched(later) == [DENIED]
    allow(server, TOPIC)
    again = server.ask(CALLER, fetch("orders", [], session=(first.session_id, 2)), 12)
    assert fetched(again) == [0]


def test_a_session_gives_another_caller_nothing(server: SimulatedServer) -> None:
    allow(server, TOPIC)
    produced(server)
    first = server.ask(CALLER, fetch("orders", [0], session=(0, 0)), 12)
    stolen = server.ask("bob", fetch("orders", [], session=(first.session_id, 1)), 12)
    assert fetched(stolen) == [DENIED]


def test_an_unknown_id_is_checked_when_it_is_known(server: SimulatedServer) -> None:
    produced(server, ADMIN)
    broker = server.bench.broker
    known = broker.image
    wanted = k01.FetchTopic(
        topic_id=known.topics["orders"].topic_id,
        partitions=[k01.FetchPartition(partition=0, partition_max_bytes=1_000)],
    )
    broker.image = replace(known, topic_names={})  # a node that lags behind
    asked = k01.FetchRequest(max_wait_ms=0, session_epoch=0, topics=[wanted])
    first = server.ask(CALLER, asked, 13)
    broker.image = known
    again = k01.FetchRequest(max_wait_ms=0, session_id=first.session_id, session_epoch=1)
    assert fetched(server.ask(CALLER, again, 13)) == [DENIED]


def _parked(server: SimulatedServer, message: Any, version: int) -> tuple[int, FakePeer]:
    connection, peer = server.connect(CALLER)
    key = server.send(connection, message, version)
    server.bench.settle()
    assert not peer.sent, "the request waits"
    return key, peer


def _answered(server: SimulatedServer, key: int, peer: FakePeer, version: int) -> Any:
    server.bench.simulation.run_until(lambda: bool(peer.sent))
    return answer_in(peer, key, version)


def test_a_parked_fetch_is_checked_again_before_its_answer(server: SimulatedServer) -> None:
    allow(server, TOPIC)
    produced(server)
    wanted = fetch("orders", [0], wait_ms=5_000)
    wanted.min_bytes = 1_000_000  # the records found so far are not enough
    key, peer = _parked(server, wanted, 12)
    revoke(server, TOPIC)
    answer = _answered(server, key, peer, 12)
    assert fetched(answer) == [DENIED]
    assert not answer.responses[0].partitions[0].records


def test_a_parked_join_is_checked_again_before_its_answer() -> None:
    group = Acl(Kind.GROUP, "g", "User:ann", Op.READ)
    with SimulatedServer({"group.initial.rebalance.delay.ms": "3000"}) as server:
        allow(server, group)
        protocol = k11.JoinGroupRequestProtocol(name="range")
        join = k11.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        find = k10.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        while server.ask(ADMIN, find, 4).coordinators[0].error_code:
            server.pause()
        key, peer = _parked(server, join, 3)
        revoke(server, group)
        answer = _answered(server, key, peer, 3)
        assert answer.error_code == GroupAuthorizationFailed.code


def test_a_name_tells_nothing_of_a_hidden_topic(server: SimulatedServer) -> None:
    answer = server.ask(CALLER, metadata("orders", "no-such-topic"), 12)
    assert [(each.error_code, each.topic_id) for each in answer.topics] == [
        (DENIED, bytes(16)),
        (DENIED, bytes(16)),
    ]
    assert "no-such-topic" not in server.bench.broker.image.topics


def test_a_cached_topic_shows_no_other_callers_operations(server: SimulatedServer) -> None:
    wanted = metadata("orders")
    wanted.include_topic_authorized_operations = True
    allow(server, TOPIC._replace(operation=Op.READ))
    bits = [
        server.ask(caller, wanted, 12).topics[0].topic_authorized_operations
        for caller in (ADMIN, CALLER, ADMIN)
    ]
    assert bits[0] == bits[2] != bits[1]
    assert bits[1] == 1 << Op.READ | 1 << Op.DESCRIBE


def test_java_addresses_are_compared_as_ours(server: SimulatedServer) -> None:
    allow(server, TOPIC._replace(host="0:0:0:0:0:0:0:1"))
    connection, peer = server.connect(CALLER)
    connection.caller = connection.caller._replace(host="::1")
    key = server.send(connection, produce("orders", b"value"), 11)
    answer = _answered(server, key, peer, 11)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert [acl_of(each).host for each in server.bench.broker.image.acls.values()] == [
        "0:0:0:0:0:0:0:1"
    ]


# -- envelopes


def _envelope(
    principal: bytes | None = None,
    address: bytes = bytes((10, 0, 0, 9)),
    *,
    key: int = 19,
    version: int = 7,
    request: bytes | None = None,
) -> k58.EnvelopeRequest:
    topic = k19.CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    inner = k19.CreateTopicsRequest(topics=[topic], timeout_ms=1_000, validate_only=True)
    ann = DefaultPrincipalData(type="User", name="ann")
    return k58.EnvelopeRequest(
        request_data=request_frame(key, version, 7, "inner", inner)[4:]
        if request is None
        else request,
        request_principal=b"\0\0" + write(ann, 0) if principal is None else principal,
        client_host_address=address,
    )


def _inner_code(answer: k58.EnvelopeResponse) -> int:
    peer = FakePeer()
    assert answer.response_data is not None
    peer.sent += bytes(4) + answer.response_data
    return int(answer_in(peer, 19, 7).topics[0].error_code)


def test_an_enveloped_request_is_judged_by_its_own_caller(server: SimulatedServer) -> None:
    answer = server.ask(ADMIN, _envelope(), 0, controller=True)
    assert (answer.error_code, _inner_code(answer)) == (0, DENIED)
    creates = Acl(Kind.TOPIC, "new", "User:ann", Op.CREATE, host="10.0.0.9")
    allow(server, creates)
    assert _inner_code(server.ask(ADMIN, _envelope(), 0, controller=True)) == 0
    elsewhere = _envelope(address=bytes((10, 0, 0, 8)))
    assert _inner_code(server.ask(ADMIN, elsewhere, 0, controller=True)) == DENIED


@pytest.mark.parametrize(
    ("envelope", "error"),
    [
        (_envelope(b""), PrincipalDeserializationFailure),
        (_envelope(b"\0\7\0"), PrincipalDeserializationFailure),
        (_envelope(b"\0\0\xff"), PrincipalDeserializationFailure),
        (_envelope(address=b"\1\2"), InvalidRequest),
        (_envelope(request=b"\0"), UnsupportedVersion),
        (_envelope(key=18, version=3), InvalidRequest),
    ],
)
def test_an_unreadable_envelope_is_rejected(
    server: SimulatedServer, envelope: k58.EnvelopeRequest, error: Any
) -> None:
    assert server.ask(ADMIN, envelope, 0, controller=True).error_code == error.code


def test_only_nodes_send_envelopes(server: SimulatedServer) -> None:
    answer = server.ask(CALLER, _envelope(), 0, controller=True)
    assert answer.error_code == ClusterAuthorizationFailed.code


# -- the audit log


def test_denials_are_on_record_and_filtered_lists_are_not(
    server: SimulatedServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.audit")
    every = metadata()
    every.topics = None
    server.ask(CALLER, every, 12)
    assert caplog.messages == []
    assert produced(server) == DENIED
    line = json.loads(caplog.messages[0])
    assert line["principal"] == "User:ann"
    assert (line["api"], line["operation"], line["resource"]) == (
        "Produce",
        "WRITE",
        "TOPIC:orders",
    )


def test_grants_are_on_record_if_configured(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.audit")
    with SimulatedServer({"audit.grants": "true"}) as server:
        server.ask(ADMIN, metadata("orders"), 12)
    assert '"rule": "super.users"' in caplog.text


def connection_of(server: SimulatedServer) -> BrokerConnection:
    return server.connect(CALLER)[0]


def test_without_an_authorizer_callers_share_routes() -> None:
    with SimulatedServer({"authorizer.class.name": "", "super.users": ""}) as server:
        other = connection_of(server)
        assert connection_of(server).produce_routes is other.produce_routes


def test_a_pattern_matches_visible_topics_alone(server: SimulatedServer) -> None:
    for name in ("visible", "hidden"):
        wanted = k19.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        server.ask(ADMIN, k19.CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 7)
    allow(server, Acl(Kind.GROUP, "g", "User:ann", Op.READ))
    allow(server, TOPIC._replace(resource_name="visible"))
    find = k10.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    while server.ask(ADMIN, find, 4).coordinators[0].error_code:
        server.pause()
    join = k68.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_regex=".*",
        topic_partitions=[],
    )
    epoch = server.ask(CALLER, join, 1).member_epoch
    server.pause()
    beat = k68.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
    assigned = server.ask(CALLER, beat, 1).assignment
    ids = [each.topic_id for each in assigned.topic_partitions]
    assert ids == [server.bench.broker.image.topics["visible"].topic_id]


def test_a_described_group_with_hidden_topics_has_no_members(server: SimulatedServer) -> None:
    allow(server, Acl(Kind.GROUP, "g", "User:ann", Op.ALL))
    allow(server, TOPIC)
    find = k10.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    while server.ask(ADMIN, find, 4).coordinators[0].error_code:
        server.pause()
    join = k68.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    assert server.ask(CALLER, join, 1).error_code == 0
    described = k69.ConsumerGroupDescribeRequest(group_ids=["g"])
    assert len(server.ask(CALLER, described, 1).groups[0].members) == 1
    revoke(server, TOPIC)
    [group] = server.ask(CALLER, described, 1).groups
    assert (group.error_code, group.members) == (DENIED, [])


def test_a_denied_node_is_named_with_the_setting_that_it_lacks(
    server: SimulatedServer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        server.ask(CALLER, _envelope(), 0, controller=True)
    hints = [each.getMessage() for each in caplog.records if each.name == "penstock.access"]
    assert len(hints) == 1
    assert "User:ann" in hints[0] and "super.users of every node: ...;User:ann" in hints[0]


def test_a_node_without_a_login_is_sent_to_log_in(
    server: SimulatedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.ask(NOBODY, _envelope(), 0, controller=True)
    assert "let nodes log in to each other" in caplog.text


def test_a_node_that_admits_nobody_does_not_start() -> None:
    with pytest.raises(StartRefused, match=r"super\.users=User:admin"):
        SimulatedServer({"super.users": ""})


def test_a_node_without_super_users_may_be_open_to_all() -> None:
    settings = {"super.users": "", "allow.everyone.if.no.acl.found": "true"}
    with SimulatedServer(settings) as server:
        assert server.ask("", metadata("orders"), 12).topics[0].error_code != DENIED
