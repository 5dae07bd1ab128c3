"""Rules that change amid produce, fetch sessions and waiting fetches, by chance from a seed.

All that is stored or sent must be allowed by the ACLs that the node has at that moment, as a look
at each of them says (acl_strategies.py).
"""

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from access_requests import ADMIN
from access_servers import SimulatedServer, answer_in
from acl_strategies import is_allowed

from penstock.broker.network.connection import BrokerConnection
from penstock.controller.acls import acl_of
from penstock.credentials.acls import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from penstock.errors import TopicAuthorizationFailed
from penstock.wire.messages import k01_fetch as k01
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k30_create_acls as k30
from penstock.wire.messages import k31_delete_acls as k31

sys.path.insert(0, str(Path(__file__).parent.parent / "broker"))
from simulated_node import FakePeer, fetch, produce

SEEDS = range(12)
STEPS = 120
TOPICS = ("aa", "ab", "b")
USERS = ("ann", "bob")
PRODUCE_VERSION, FETCH_VERSION = 11, 12
WAIT_MS = 400
DENIED = TopicAuthorizationFailed.code
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL


class Life:
    """A node, two users with a connection each, and fetches that wait on connections of their
    own."""

    def __init__(self, seed: int, server: SimulatedServer) -> None:
        self.chance = random.Random(seed)
        self.server = server
        self.seen: Counter[str] = Counter()
        self._sessions: dict[str, tuple[int, int]] = {}
        self._waiting: list[tuple[str, str, BrokerConnection, FakePeer, int]] = []
        wanted = [
            k19.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS
        ]
        server.ask(ADMIN, k19.CreateTopicsRequest(topics=wanted, timeout_ms=1_000), 7)

    def may(self, user: str, operation: AclOperation, topic: str) -> bool:
        """Decide by the ACLs of the node's image, and by nothing else of it."""
        acls = [acl_of(each) for each in self.server.bench.broker.image.acls.values()]
        caller = self.server.connect(user)[0].caller
        return is_allowed(acls, caller, operation, AclResourceType.TOPIC, topic)

    def step(self) -> None:
        pick = self.chance.choice
        user, topic = pick(USERS), pick(TOPICS)
        before = {(each, name): self.may(each, READ, name) for each in USERS for name in TOPICS}
        match pick(("allow", "allow", "revoke", "produce", "produce", "session", "wait", "pause")):
            case "allow":
                self._change(allowed=True)
            case "revoke":
                self._change(allowed=False)
            case "produce":
                self._produce(user, topic)
            case "session":
                self._fetch_session(user)
            case "wait":
                self._wait(user, topic)
            case "pause":
                self.server.bench.settle(self.chance.choice((10, 300)))
        self._judge_answered(before)

    # -- rules

    def _change(self, *, allowed: bool) -> None:
        pick = self.chance.choice
        name = pick((*TOPICS, "*", "a"))
        pattern = PatternType.PREFIXED if name == "a" else PatternType.LITERAL
        acl = Acl(
            AclResourceType.TOPIC,
            name,
            pick(("User:ann", "User:bob", "User:*")),
            pick((READ, WRITE, ALL)),
            pick((AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY)),
            pick(("*", "*", "10.9.9.9")),
            pattern,
        )
        if allowed:
            creation = k30.AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            self.server.ask(ADMIN, k30.CreateAclsRequest(creations=[creation]), 3)
            return
        wanted = k31.DeleteAclsFilter(
            resource_type_filter=acl.resource_type,
            resource_name_filter=pick((acl.resource_name, None)),
            pattern_type_filter=PatternType.ANY,
            principal_filter=pick((acl.principal, None)),
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermission.ANY,
        )
        self.server.ask(ADMIN, k31.DeleteAclsRequest(filters=[wanted]), 3)

    # -- requests

    def _produce(self, user: str, topic: str) -> None:
        log = self.server.bench.broker.find(topic, 0).log
        end_offset, allowed = log.end_offset, self.may(user, WRITE, topic)
        answer = self.server.ask(user, produce(topic, b"value"), PRODUCE_VERSION)
        code = answer.responses[0].partition_responses[0].error_code
        assert (code == 0) is allowed and (code == DENIED) is not allowed
        assert log.end_offset - end_offset == int(allowed)
        self.seen[f"produced {allowed}"] += 1

    def _fetch_session(self, user: str) -> None:
        """Fetch all topics from their beginnings, in a session where there is one."""
        allowed = {topic: self.may(user, READ, topic) for topic in TOPICS}
        session = self._sessions.get(user, (0, 0))
        request = fetch(TOPICS[0], [0], session=session)
        request.topics = [
            k01.FetchTopic(
                topic=each, partitions=[k01.FetchPartition(partition=0, partition_max_bytes=1000)]
            )
            for each in (TOPICS if not session[0] else self.chance.sample(TOPICS, 1))
        ]
        answer = self.server.ask(user, request, FETCH_VERSION)
        assert answer.error_code == 0
        self._sessions[user] = (answer.session_id, session[1] + 1)
        for topic in answer.responses:
            for partition in topic.partitions:
                self._judge(topic.topic, partition, allowed=allowed[topic.topic])

    def _judge(self, topic: str, partition: Any, *, allowed: bool) -> None:
        assert (partition.error_code == DENIED) is not allowed, topic
        if partition.records:
            assert allowed
        self.seen[f"fetched {allowed}"] += 1

    def _wait(self, user: str, topic: str) -> None:
        """Begin a fetch that waits for more records than there are."""
        connection, peer = self.server.connect(user)
        request = fetch(topic, [0], wait_ms=WAIT_MS)
        request.min_bytes = 1_000_000
        key = self.server.send(connection, request, FETCH_VERSION)
        self._waiting.append((user, topic, connection, peer, key))

    def _judge_answered(self, before: dict[tuple[str, str], bool]) -> None:
        """Judge the answers of this step. One may have left before the rules changed in it."""
        for each in list(self._waiting):
            user, topic, connection, peer, key = each
            if not peer.sent:
                continue
            self._waiting.remove(each)
            answer = answer_in(peer, key, FETCH_VERSION)
            for partition in answer.responses[0].partitions:
                now = self.may(user, READ, topic)
                if now == before[user, topic]:
                    self._judge(topic, partition, allowed=now)
            connection.closed()


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_stored_or_sent_under_a_rule_that_is_gone(seed: int) -> None:
    with SimulatedServer() as server:
        life = Life(seed, server)
        for _ in range(STEPS):
            life.step()
        assert min(life.seen[each] for each in ("produced True", "produced False")) > 0
        assert min(life.seen[each] for each in ("fetched True", "fetched False")) > 0
