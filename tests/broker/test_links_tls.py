"""Links with TLS in a simulated network: both sides show certificates, or learn why not."""

from dataclasses import replace

import pytest
from link_peers import ADDRESS, LinkWorlds
from tls_stores import Stores

from depth import seeds
from penstock.broker.links.link_connection import LinkFailed
from penstock.wire.messages.k60_describe_cluster import DescribeClusterResponse
from penstock.world import TlsSettings


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores.make(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def node(stores: Stores) -> TlsSettings:
    return TlsSettings(
        identity=stores.node.key_pem() + stores.node.certificate_pem(),
        trusted=stores.authority.certificate_pem(),
        client_auth="required",
    )


def test_both_ends_of_a_link_are_known_by_their_certificates(
    stores: Stores, node: TlsSettings
) -> None:
    worlds = LinkWorlds(tls=(node, node))
    assert isinstance(worlds.ask().wait(), DescribeClusterResponse)
    assert worlds.node.peers[0].identity == stores.node.der


@pytest.mark.parametrize(
    ("near", "far", "reason"),
    [
        ({"identity": ""}, {}, "certificate required"),
        ({"trusted": ""}, {}, "the certificate is not accepted"),
        ({}, {"trusted": ""}, "the certificate is not accepted"),
    ],
)
def test_a_failed_handshake_fails_the_request_and_tells_both_sides(
    node: TlsSettings, near: dict[str, str], far: dict[str, str], reason: str
) -> None:
    worlds = LinkWorlds(
        tls=(replace(node, **near), replace(node, **far))  # type: ignore[arg-type]
    )
    result = worlds.ask().wait()
    assert isinstance(result, LinkFailed) and result.unsent
    assert f"far:9092 cannot be reached: the TLS handshake failed: {reason}" in str(result)
    assert worlds.node.rejected and reason in worlds.node.rejected[0]
    assert not worlds.node.peers


@pytest.mark.parametrize("sides", ["near", "far"])
def test_tls_on_one_side_alone_is_no_connection(node: TlsSettings, sides: str) -> None:
    worlds = LinkWorlds(tls=(node, None) if sides == "near" else (None, node))
    assert isinstance(worlds.ask().wait(), LinkFailed)


@pytest.mark.parametrize("seed", seeds(30, few=3))
def test_a_link_opens_when_handshakes_no_longer_fail(node: TlsSettings, seed: int) -> None:
    worlds = LinkWorlds(seed, tls=(node, node))
    network = worlds.node.world.simulation.network
    network.handshake_failures = 1.0
    assert isinstance(worlds.ask().wait(), LinkFailed)
    network.handshake_failures = 0.5
    for _ in range(100):
        if isinstance(worlds.ask().wait(), DescribeClusterResponse):
            return
    raise AssertionError("no handshake worked")


def test_a_reload_is_for_later_connections(stores: Stores, node: TlsSettings) -> None:
    worlds = LinkWorlds(tls=(node, node))
    worlds.ask().wait()
    other = replace(node, identity=stores.server.key_pem() + stores.server.certificate_pem())
    worlds.near_tls = other
    worlds.ask().wait()
    assert len(worlds.node.peers) == 1
    worlds.node.peers[0].close()
    worlds.run_until(lambda: worlds.link.versions is None)
    worlds.ask(timeout_ms=10_000).wait()
    assert worlds.node.peers[1].identity == stores.server.der
    assert worlds.link.address == ADDRESS
