"""Links that log in: to a node of this project, again before a session ends, and failures."""

from collections.abc import Mapping

import pytest
from sasl_talk import CAROL, SCRAM, SETTINGS, add_user, sasl_listener
from simulated_node import Bench

from penstock.broker.links.link import Link, LinkSettings
from penstock.broker.links.link_connection import LinkFailed
from penstock.broker.links.links import LinkPurpose, Links
from penstock.credentials.mechanism import Mechanism
from penstock.credentials.plain import SaslPlain
from penstock.credentials.scram import Scram
from penstock.testing.sim.world import SimWorld
from penstock.wire.messages.k60_describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)

ALICE = SaslPlain("alice", "alice-secret")
LIFETIME_MS = 3_000


class LinkedNodes:
    """A node with SASL, and another world with a link to it."""

    def __init__(
        self,
        mechanism: Mechanism | None,
        settings: Mapping[str, str] | None = None,
        port: int = 9093,
    ) -> None:
        self.bench = Bench({**SETTINGS, **(settings or {})})
        add_user(self.bench, CAROL)
        self.near = SimWorld(self.bench.simulation, "near")
        self.link = Link(self.near, "node", port, LinkSettings("node-7", mechanism=mechanism))

    def ask(self) -> DescribeClusterResponse | Exception:
        answers: list[DescribeClusterResponse | Exception] = []
        self.link.request(DescribeClusterRequest(), DescribeClusterResponse, 5_000, answers.append)
        self.bench.simulation.run_until(lambda: bool(answers))
        return answers[0]


@pytest.mark.parametrize("mechanism", [ALICE, CAROL], ids=["PLAIN", SCRAM])
def test_requests_are_sent_after_the_login(mechanism: Mechanism) -> None:
    nodes = LinkedNodes(mechanism)
    answer = nodes.ask()
    assert isinstance(answer, DescribeClusterResponse)
    assert answer.error_code == 0
    [connection] = sasl_listener(nodes.bench).connections
    assert connection.caller.principal.name in ("alice", "carol")


@pytest.mark.parametrize("mechanism", [ALICE, CAROL], ids=["PLAIN", SCRAM])
def test_a_link_logs_in_again_before_its_session_ends(mechanism: Mechanism) -> None:
    nodes = LinkedNodes(mechanism, {"connections.max.reauth.ms": str(LIFETIME_MS)})
    logins = sasl_listener(nodes.bench).logins
    assert logins is not None
    for _ in range(12):
        assert isinstance(nodes.ask(), DescribeClusterResponse)
        nodes.bench.settle(1_000)
    assert (logins.successful, logins.expired, logins.failed_again) == (1, 0, 0)
    assert logins.successful_again >= 3


@pytest.mark.parametrize(
    ("mechanism", "port", "reason"),
    [
        (
            SaslPlain("alice", "wrong-secret"),
            9093,
            "the login to node:9093 by PLAIN failed: Authentication failed during authentication",
        ),
        (Scram("SCRAM-SHA-512", "carol", "c"), 9093, "the other node offers PLAIN, SCRAM-SHA-256"),
        (None, 9093, "closed the connection"),
        (ALICE, 9092, "its listener asks for no login"),
    ],
)
def test_a_login_that_fails_names_the_reason(
    mechanism: Mechanism | None, port: int, reason: str
) -> None:
    answer = LinkedNodes(mechanism, port=port).ask()
    assert isinstance(answer, LinkFailed)
    assert reason in str(answer)
    assert "secret" not in str(answer)


def test_links_between_brokers_have_a_login_of_their_own() -> None:
    bench = Bench(SETTINGS)
    to_brokers = LinkSettings("node-7", mechanism=ALICE)
    links = Links(SimWorld(bench.simulation, "near"), LinkSettings("node-7"), to_brokers)
    answers: dict[LinkPurpose, DescribeClusterResponse | Exception] = {}
    for purpose in LinkPurpose:
        port = 9093 if purpose.value in ("transaction", "fetch", "offsets") else 9092

        def keep(answer: DescribeClusterResponse | Exception, to: LinkPurpose = purpose) -> None:
            answers[to] = answer

        link = links.to(1, ("node", port), purpose)
        link.request(DescribeClusterRequest(), DescribeClusterResponse, 5_000, keep)
    bench.simulation.run_until(lambda: len(answers) == len(LinkPurpose))
    assert all(isinstance(each, DescribeClusterResponse) for each in answers.values())
