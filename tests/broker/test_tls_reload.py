"""Certificates of a running node: exchanged for later connections, or kept if the new are bad."""

import logging
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from node_process import NodeProcess
from tls_nodes import client_properties, connect, listener_settings
from tls_stores import Identity, Stores

from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import Connection
from penstock.client.transport.security import Security
from penstock.client.values import ConfigChange, Operation, Resource, ResourceType
from penstock.errors import InvalidRequest, KafkaError
from penstock.testing import Cluster
from penstock.wire.messages.k03_metadata import MetadataRequest, MetadataResponse

LOCATION = "listener.name.ssl.ssl.keystore.location"
LOOKS_MAX = 2_000
BROKER = Resource(ResourceType.BROKER, "1")


class LiveNode:
    """A node whose key store is a file of this test."""

    def __init__(self, stores: Stores, directory: Path) -> None:
        self.stores = stores
        self.path = directory / "node.pem"
        self.write(stores.node)
        settings = listener_settings(stores) | {"security.inter.broker.protocol": "SSL"}
        self.cluster = Cluster(settings | {"ssl.keystore.location": str(self.path)})

    def write(self, identity: Identity) -> None:
        self.path.write_text(identity.key_pem() + identity.certificate_pem())

    def signed(self, name: str = "node", *hosts: str) -> Identity:
        return self.stores.sign(name, *(hosts or ("localhost", "127.0.0.1")))

    @property
    def shown(self) -> bytes:
        """The certificate that a new connection is shown."""
        return ssl.PEM_cert_to_DER_cert(
            ssl.get_server_certificate(self.cluster.addresses["SSL"], timeout=10)
        )

    def until_shown(self, identity: Identity) -> None:
        for _ in range(LOOKS_MAX):
            if self.shown == identity.der:
                return
        raise AssertionError("the new certificate is never shown")

    def alter(self, **changes: str) -> KafkaError | None:
        host, port = self.cluster.addresses["SSL"]
        settings = {"bootstrap.servers": f"{host}:{port}", **client_properties(self.stores)}
        with Admin(settings) as admin:
            wanted = [
                ConfigChange(name.replace("_", "."), Operation.SET, text)
                for name, text in (changes or {LOCATION: str(self.path)}).items()
            ]
            return admin.alter_configs({BROKER: wanted})[BROKER]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores.make(tmp_path_factory.mktemp("stores"))


@pytest.fixture
def node(stores: Stores, tmp_path: Path) -> Iterator[LiveNode]:
    made = LiveNode(stores, tmp_path)
    with made.cluster:
        yield made


def test_the_same_location_again_reads_the_file_again(node: LiveNode) -> None:
    with connect(node.cluster, node.stores) as before:
        for _ in range(2):
            newer = node.signed()
            node.write(newer)
            assert node.alter() is None
            node.until_shown(newer)
        before.request(MetadataRequest(topics=[]), MetadataResponse)


def test_a_new_trust_store_decides_about_later_clients(node: LiveNode) -> None:
    other = Stores.make(node.path.parent / "other", "another authority")
    both = other.authority.certificate_pem() + node.stores.authority.certificate_pem()
    trusted = node.path.parent / "both.pem"
    trusted.write_text(both)
    changes = {
        "listener.name.ssl.ssl.truststore.location": str(trusted),
        "listener.name.ssl.ssl.client.auth": "required",
    }
    assert node.alter(**changes) is None
    properties = client_properties(other, shows=True)
    properties["ssl.truststore.location"] = node.stores.path("ca.pem")
    for _ in range(LOOKS_MAX):
        security = Security.from_properties(properties)
        with Connection(*node.cluster.addresses["SSL"], security=security):
            listener = node.cluster.broker.listeners[0]
            if any(each.caller.principal.name == "CN=client" for each in listener.connections):
                return
    raise AssertionError("the client is never known by its certificate")


@pytest.mark.parametrize("case", ["missing", "another key", "subject", "names", "untrusted"])
def test_a_bad_store_is_rejected_and_changes_nothing(node: LiveNode, case: str) -> None:
    before = node.shown
    changes = {LOCATION: str(node.path)}
    match case:
        case "missing":
            changes = {LOCATION: "/nowhere"}
            reason = "ssl.keystore.location=/nowhere cannot be read"
        case "another key":
            key, certificate = node.signed(), node.signed()
            node.path.write_text(key.key_pem() + certificate.certificate_pem())
            reason = "does the certificate belong to the key?"
        case "subject":
            node.write(node.signed("other"))
            reason = "the subject is CN=other instead of CN=node"
        case "names":
            node.write(node.signed("node", "elsewhere"))
            reason = "the alternative names differ"
        case _:
            node.write(Stores.make(node.path.parent / "other", "another authority").node)
            reason = "cannot connect to a server with them"
    error = node.alter(**changes)
    assert isinstance(error, InvalidRequest) and reason in error.message
    assert node.shown == before


def test_a_change_of_the_subject_may_be_allowed(stores: Stores, tmp_path: Path) -> None:
    node = LiveNode(stores, tmp_path)
    settings = listener_settings(stores) | {
        "ssl.keystore.location": str(node.path),
        "ssl.allow.dn.changes": "true",
        "ssl.allow.san.changes": "true",
    }
    node.cluster = Cluster(settings)
    with node.cluster:
        newer = node.signed("other", "elsewhere")
        node.write(newer)
        assert node.alter() is None
        node.until_shown(newer)


def test_a_file_that_turned_bad_is_logged_by_a_reload(
    node: LiveNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before = node.shown
    node.path.write_text("nothing")
    assert node.alter(log_cleaner_threads="2") is None
    for _ in range(LOOKS_MAX):
        assert node.shown == before
        if "the certificates stay as they are: listener SSL" in caplog.text:
            return
    raise AssertionError("nothing was logged")


@pytest.mark.parametrize(("days", "warned"), [(29.5, True), (31, False)])
def test_a_certificate_that_ends_soon_is_logged_and_measured(
    stores: Stores, tmp_path: Path, caplog: pytest.LogCaptureFixture, days: float, warned: bool
) -> None:
    node = LiveNode(stores, tmp_path)
    soon = stores.sign("node", "localhost", "127.0.0.1", days=days)
    node.write(soon)
    with node.cluster:
        assert ("ends in 29 days: replace it" in caplog.text) is warned
        end = soon.certificate.not_valid_after_utc.timestamp()
        assert node.cluster.broker.tls.ends_ms() == {"SSL": end * 1000}


def test_a_command_reads_the_stores_again(node: LiveNode) -> None:
    host, port = node.cluster.addresses["SSL"]
    keys = [
        word
        for name, text in client_properties(node.stores).items()
        for word in ("-X", f"{name}={text}")
    ]
    command = [sys.executable, "-m", "penstock", "--bootstrap", f"{host}:{port}", *keys]
    newer = node.signed()
    node.write(newer)
    done = subprocess.run(
        [*command, "cert", "reload"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "broker 1: reloaded\n"), done
    node.until_shown(newer)


def test_sighup_reads_the_stores_again(stores: Stores, tmp_path: Path) -> None:
    path = tmp_path / "node.pem"
    path.write_text(stores.node.key_pem() + stores.node.certificate_pem())
    settings = listener_settings(stores) | {"ssl.keystore.location": str(path)}
    with NodeProcess(tmp_path / "data", settings) as process:
        newer = stores.sign("node", "localhost", "127.0.0.1")
        path.write_text(newer.key_pem() + newer.certificate_pem())
        os.kill(process.process.pid, signal.SIGHUP)
        for _ in range(LOOKS_MAX):
            shown = ssl.get_server_certificate(process.address, timeout=10)
            if ssl.PEM_cert_to_DER_cert(shown) == newer.der:
                return
    raise AssertionError("the new certificate is never shown")
