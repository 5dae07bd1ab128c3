"""`penstock start --secure`: what it writes, who gets in, and what the next start does."""

import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from node_process import NodeProcess

from penstock.config.properties import parse_properties

PLAIN_CLIENT_SECONDS = 1.0


class SecuredStart(NodeProcess):
    """A node started by `penstock start --secure`, or by a later start without the option."""

    def __init__(self, data: Path, port: int, *words: str) -> None:
        super().__init__(
            data,
            {"listeners": f"SASL_SSL://127.0.0.1:{port}"},
            after=words,
            environment={"PENSTOCK_CONFIG": str(data.parent / "config.toml")},
        )


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def keys_of(path: Path) -> dict[str, str]:
    return {each.key: each.value for each in parse_properties(path.read_text())}


def writes(settings: dict[str, str], port: int, timeout_s: float) -> bool:
    """Whether a record is written within a time."""
    errors: list[object] = []
    reports: list[bool] = []
    own: dict[str, object] = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "error_cb": errors.append,
        "message.timeout.ms": int(timeout_s * 1000),
    }
    producer = Producer({**settings, **own})
    producer.produce(
        "greetings", b"hello", on_delivery=lambda error, _: reports.append(error is None)
    )
    producer.flush(2 * timeout_s)
    return reports == [True]


@pytest.fixture
def port() -> int:
    return free_port()


def test_a_secured_node_stays_secured_and_serves_its_admin(tmp_path: Path, port: int) -> None:
    data, secured = tmp_path / "data", tmp_path / "data.secure"
    with NodeProcess(data):
        pass  # a node with data is taken too
    for words in (["--secure"], []):
        with SecuredStart(data, port, *words) as node:
            assert node.address == ("127.0.0.1", port)
            admin = keys_of(secured / "librdkafka.properties")
            assert writes(admin, port, 30)
            assert not writes({}, port, PLAIN_CLIENT_SECONDS)
            password = admin["sasl.password"]
            assert password not in node.stderr
            node.terminate()
    assert stat.S_IMODE(secured.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in secured.iterdir()} == {0o600}


def test_other_users_need_a_login_and_permissions(tmp_path: Path, port: int) -> None:
    command = [sys.executable, "-m", "penstock", "--profile", "secure"]
    address = ["--bootstrap", f"127.0.0.1:{port}"]
    environment = {"PENSTOCK_CONFIG": str(tmp_path / "config.toml"), "PATH": "/usr/bin:/bin"}

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*command, *address, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env=environment,
            cwd=tmp_path,
        )

    with SecuredStart(tmp_path / "data", port, "--secure"):
        assert run("topic", "create", "greetings").returncode == 0
        assert run("user", "add", "billing", "--generate").returncode == 0
        secured = tmp_path / "data.secure"
        settings = keys_of(tmp_path / "billing.librdkafka.properties")
        settings["ssl.ca.location"] = str(secured / "ca.pem")
        assert not writes(settings, port, PLAIN_CLIENT_SECONDS)
        assert run("acl", "allow", "billing", "--produce", "greetings").returncode == 0
        assert writes(settings, port, 30)


def test_the_option_is_for_one_node_without_a_file(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "penstock", "start", "--secure", "--nodes", "3"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=60,
    )
    assert ended.returncode == 2 and "--secure is for one node" in ended.stderr
