"""Shells complete commands and options."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from cli_running import NO_PROFILES, run

from penstock.client.admin.blocking import Admin
from penstock.client.values import NewTopic
from penstock.model import TopicPartition
from penstock.testing import Cluster

NOBODY = "127.0.0.1:1"
PROGRAM = "import sys; from penstock.cli.main import main; sys.exit(main())"


def ask(**environment: str) -> str:
    """Return what the program prints in this environment, run within this process."""
    with mock.patch.dict(os.environ, environment):
        ran = run()
    assert not ran.err
    return ran.out


def ask_process(**environment: str) -> str:
    """Return what the program prints in this environment, run as a shell runs it."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PENSTOCK_CONFIG": NO_PROFILES, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    return done.stdout


def words_of(line: str) -> dict[str, str]:
    """Return the variables by which bash asks for the completion of a line."""
    place = str(len(line.split(" ")) - 1)
    return {"_PENSTOCK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": place}


def completed(line: str, **environment: str) -> list[str]:
    return sorted(ask(**words_of(line), **environment).split())


def test_a_shell_that_asks_a_process_is_told_the_same() -> None:
    words = words_of("penstock topic del")
    assert ask_process(**words) == ask(**words)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("penstock to", ["topic", "top"]),
        ("penstock topic del", ["delete", "delete-records"]),
        ("penstock consume orders --isol", ["--isolation"]),
        ("penstock consume orders --isolation read_c", ["read_committed"]),
        ("penstock topic list --format y", ["yaml"]),
    ],
)
def test_bash_is_told_what_could_follow(line: str, found: list[str]) -> None:
    assert completed(line) == sorted(found)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("--profile d", ["dev", "dev-old"]),
        ("topic list --profile dev-", ["dev-old"]),
        ("profile use p", ["prod"]),
        ("profile show p", ["prod"]),
        ("profile set p", ["prod"]),
        ("profile remove d", ["dev", "dev-old"]),
    ],
)
def test_profiles_are_those_of_the_file(tmp_path: Path, line: str, found: list[str]) -> None:
    path = tmp_path / "config.toml"
    path.write_text("".join(f"[profiles.{each}]\n" for each in ("dev", "dev-old", "prod")))
    assert completed(f"penstock {line}", PENSTOCK_CONFIG=str(path)) == found


def test_a_file_of_profiles_that_cannot_be_read_is_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("nonsense")
    assert completed("penstock profile use p", PENSTOCK_CONFIG=str(path)) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("config explain retention.b", ["retention.bytes"]),
        ("config unset --topic t log.retention", []),
        ("config set --topic t retention.b", ["retention.bytes="]),
        ("config set --all-brokers log.retention.mi", ["log.retention.minutes="]),
        ("topic create t --config cleanup", ["cleanup.policy="]),
        ("start --set log.retention.mi", ["log.retention.minutes="]),
        ("topic list -X sasl.mecha", ["sasl.mechanism="]),
    ],
)
def test_keys_of_configuration_are_known(line: str, found: list[str]) -> None:
    assert completed(f"penstock {line}") == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(shell: str) -> None:
    assert "penstock" in ask_process(_PENSTOCK_COMPLETE=f"source_{shell}")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A cluster with topics and a group, in two namespaces."""
    with Cluster() as cluster, Admin(bootstrap=cluster.bootstrap) as admin:
        names = ("orders", "orders-old", "clicks", "dev.orders-new")
        admin.create_topics([NewTopic(name) for name in names])
        admin.groups.commit("billing", {TopicPartition("orders", 0): 0})
        yield cluster.bootstrap


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("topic describe o", ["orders", "orders-old"]),
        ("topic describe orders-old cl", ["clicks"]),
        ("topic delete __c", ["__consumer_offsets"]),
        ("topic create o", []),
        ("consume c", ["clicks"]),
        ("produce c", ["clicks"]),
        ("config describe --topic c", ["clicks"]),
        ("group describe b", ["billing"]),
        ("group reset billing --topic c", ["clicks"]),
        ("consume orders --group b", ["billing"]),
        ("consume --namespace dev. o", ["orders-new"]),
    ],
)
def test_names_are_asked_of_the_cluster(bootstrap: str, line: str, found: list[str]) -> None:
    assert completed(f"penstock {line}", PENSTOCK_BOOTSTRAP=bootstrap) == found


@pytest.mark.parametrize("line", ["--bootstrap {} topic alter cl", "topic alter --bootstrap {} cl"])
def test_the_cluster_is_the_one_that_the_line_says(bootstrap: str, line: str) -> None:
    said = f"penstock {line.format(bootstrap)}"
    assert completed(said, PENSTOCK_BOOTSTRAP=NOBODY) == ["clicks"]


def test_a_cluster_that_cannot_be_asked_is_no_trouble() -> None:
    assert completed("penstock topic describe o", PENSTOCK_BOOTSTRAP=NOBODY) == []
    assert completed("penstock topic describe o", PENSTOCK_BOOTSTRAP="no address") == []
