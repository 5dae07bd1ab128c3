"""`penstock user` over a node: users, their files, and that no output has a password."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_running import Ran, run

from penstock.client.admin.blocking import Admin
from penstock.client.transport.connection import NotAuthenticated
from penstock.config.properties import parse_properties
from penstock.testing.cluster import Cluster

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
}


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    with Cluster(SETTINGS) as cluster:
        yield cluster


def user(cluster: Cluster, *arguments: str, stdin: str = "", listener: str = "PLAINTEXT") -> Ran:
    host, port = cluster.addresses[listener]
    return run("--bootstrap", f"{host}:{port}", "user", *arguments, stdin=stdin.encode())


def logs_in(cluster: Cluster, name: str, password: str, mechanism: str) -> bool:
    host, port = cluster.addresses["SASL"]
    keys = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{MODULE} required username="{name}" password="{password}";',
    }
    try:
        with Admin(keys, bootstrap=f"{host}:{port}") as admin:
            admin.list_topics()
    except NotAuthenticated:
        return False
    return True


def test_a_user_is_added_with_a_password_from_stdin(secured: Cluster) -> None:
    assert user(secured, "add", "alice", stdin="first-secret\n").code == 0
    assert logs_in(secured, "alice", "first-secret", "SCRAM-SHA-512")
    listed = user(secured, "list", "--format", "json").json
    assert {"name": "alice", "mechanisms": "SCRAM-SHA-512", "iterations": 4096} in listed


def test_a_user_who_exists_is_not_added_again(secured: Cluster) -> None:
    user(secured, "add", "bob", stdin="first-secret")
    again = user(secured, "add", "bob", stdin="other-secret")
    assert again.code == 1 and "penstock user password bob" in again.err
    assert logs_in(secured, "bob", "first-secret", "SCRAM-SHA-512")


def test_another_password_keeps_the_mechanism(secured: Cluster) -> None:
    user(secured, "add", "carol", "--mechanism", "scram-sha-256", stdin="first-secret")
    assert user(secured, "password", "carol", stdin="other-secret").code == 0
    assert logs_in(secured, "carol", "other-secret", "SCRAM-SHA-256")
    assert not logs_in(secured, "carol", "first-secret", "SCRAM-SHA-256")


def test_a_generated_password_is_in_files_for_the_owner_alone(
    secured: Cluster, tmp_path: Path
) -> None:
    made = user(secured, "add", "dora", "--generate", "--files", str(tmp_path))
    java, rdkafka = (Path(line) for line in made.out.splitlines())
    assert [java.name, rdkafka.name] == ["dora.properties", "dora.librdkafka.properties"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in (java, rdkafka)} == {0o600}
    keys = {each.key: each.value for each in parse_properties(rdkafka.read_text())}
    password = keys["sasl.password"]
    assert password not in made.out + made.err
    assert logs_in(secured, "dora", password, keys["sasl.mechanism"])
    jaas = {each.key: each.value for each in parse_properties(java.read_text())}
    assert jaas["sasl.jaas.config"] == f'{MODULE} required username="dora" password="{password}";'


def test_files_that_exist_are_left_alone_and_the_user_is_not_added(
    secured: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "eve.librdkafka.properties").write_text("mine")
    failed = user(secured, "add", "eve", "--generate", "--files", str(tmp_path))
    assert failed.code == 1 and "eve.librdkafka.properties" in failed.err
    assert os.listdir(tmp_path) == ["eve.librdkafka.properties"]
    assert user(secured, "password", "eve", stdin="x").code == 1


def test_a_removed_user_cannot_log_in(secured: Cluster) -> None:
    user(secured, "add", "frank", stdin="first-secret")
    assert user(secured, "remove", "frank").code == 2  # without a terminal --yes is needed
    removed = user(secured, "remove", "frank", "--yes")
    assert (removed.code, removed.err) == (0, "removed frank\n")
    assert not logs_in(secured, "frank", "first-secret", "SCRAM-SHA-512")
    missing = user(secured, "remove", "frank", "--yes")
    assert missing.code == 1 and "there is no user frank" in missing.err


@pytest.mark.parametrize(
    ("arguments", "stdin", "problem"),
    [
        (("add", "x"), "", "a password is needed"),
        (("add", "x", "--mechanism", "PLAIN"), "p", "it is one of SCRAM-SHA-256, SCRAM-SHA-512"),
        (("add", "a/b", "--generate"), "", "cannot name a file"),
        (("password", "stranger"), "p", "there is no user stranger"),
    ],
)
def test_what_cannot_be_is_told(
    secured: Cluster, arguments: tuple[str, ...], stdin: str, problem: str
) -> None:
    found = user(secured, *arguments, stdin=stdin)
    assert found.code in (1, 2) and problem in found.err
