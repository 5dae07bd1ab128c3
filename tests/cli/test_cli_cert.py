"""`penstock cert`: an authority of one's own, whose certificates nodes and clients can use."""

import shutil
import stat
from pathlib import Path

import pytest
from cli_running import Ran, run

from penstock.client.transport.connection import CannotReach, Connection
from penstock.client.transport.security import Security
from penstock.config.properties import parse_properties
from penstock.credentials.principal import Principal
from penstock.testing import Cluster


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "certificates"


def cert(place: Path, *words: str) -> Ran:
    return run("cert", *words, "--directory", str(place))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def connect(cluster: Cluster, place: Path, client: str) -> list[Principal]:
    """The principals of the connections while a client is connected."""
    properties = parse_properties((place / f"{client}.properties").read_text())
    keys = {each.key: each.value for each in properties}
    security = Security.from_properties(keys)
    with Connection(*cluster.addresses["SSL"], security=security):
        return [each.caller.principal for each in cluster.broker.listeners[0].connections]


def serving(place: Path) -> Cluster:
    return Cluster(
        {
            "listeners": "SSL://127.0.0.1:0",
            "security.inter.broker.protocol": "SSL",
            "ssl.client.auth": "required",
            "ssl.keystore.location": str(place / "one.pem"),
            "ssl.truststore.location": str(place / "ca.pem"),
        }
    )


def test_a_node_and_a_client_trust_each_other(place: Path) -> None:
    assert cert(place, "node", "one").out == f"{place}/one.pem\n{place}/ca.pem\n"
    assert cert(place, "client", "billing").code == 0
    with serving(place) as cluster:
        assert connect(cluster, place, "billing") == [Principal("CN=billing")]


def test_only_their_owner_may_read_the_files(place: Path) -> None:
    cert(place, "client", "billing")
    assert mode(place) == 0o700
    assert {mode(each) for each in place.iterdir()} == {0o600}


def test_certificates_are_shown_without_keys(place: Path) -> None:
    cert(place, "node", "one", "--host", "kafka.example.org", "--host", "::1")
    rows = run("cert", "show", "--directory", str(place), "--format", "json").json
    assert [each["subject"].partition(" ")[0] for each in rows] == ["CN=penstock", "CN=one"]
    assert rows[1]["hosts"] == "kafka.example.org, ::1"
    assert 363 <= rows[1]["days"] <= 365
    assert len(rows[1]["fingerprint"]) == 64
    assert "PRIVATE" not in cert(place, "show").out


def test_a_renewed_certificate_has_the_same_subject_and_hosts(place: Path) -> None:
    cert(place, "node", "one", "--host", "kafka.example.org")
    before = (place / "one.pem").read_text()
    assert cert(place, "renew").out == ""
    assert cert(place, "renew", "--days", "400").out == f"{place}/one.pem\n"
    assert (place / "one.pem").read_text() != before
    assert cert(place, "renew", "one").out == f"{place}/one.pem\n"
    shown = run("cert", "show", str(place / "one.pem"), "--format", "json").json
    assert (shown[0]["subject"], shown[0]["hosts"]) == ("CN=one", "kafka.example.org")


def test_a_new_authority_overlaps_the_former_one(place: Path, tmp_path: Path) -> None:
    cert(place, "node", "one")
    cert(place, "client", "former")
    assert cert(place, "renew", "--authority").out == f"{place}/ca.pem\n"
    cert(place, "client", "newer")
    with serving(place) as cluster:
        assert connect(cluster, place, "former") == [Principal("CN=former")]
        assert connect(cluster, place, "newer") == [Principal("CN=newer")]
    strange = tmp_path / "strange"
    cert(strange, "client", "newer")
    shutil.copy(place / "ca.pem", strange / "ca.pem")
    with serving(place) as cluster, pytest.raises(CannotReach):
        connect(cluster, strange, "newer")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("node", "ca"), "'ca' is no name for a file"),
        (("client", "../x"), "'../x' is no name for a file"),
        (("node", "one", "--host", "http://x"), "neither a name nor an address"),
        (("renew", "one", "--authority"), "renew certificates afterwards"),
        (("renew", "one"), "one.pem cannot be read"),
        (("show",), "has no certificate"),
    ],
)
def test_a_mistake_is_explained(place: Path, words: tuple[str, ...], reason: str) -> None:
    ran = cert(place, *words)
    assert ran.code in (1, 2) and reason in ran.err
    assert "Traceback" not in ran.err
