"""`penstock config explain` and wrong arguments of `config set`, which need no server."""

import pytest
from cli_running import run

from penstock.cli.terminal.output import ExitCode


def test_a_topic_key_names_the_broker_keys_behind_it() -> None:
    (row,) = run("config", "explain", "retention.ms", "--format", "json").json
    assert row["scope"] == "topic"
    assert row["default"] == "604800000"
    assert row["from"] == "log.retention.ms, log.retention.minutes, log.retention.hours"


def test_a_group_key_names_the_broker_keys_behind_it() -> None:
    (row,) = run("config", "explain", "consumer.session.timeout.ms", "--format", "json").json
    assert row["scope"] == "group"
    assert row["default"] == "45000"
    assert row["from"] == "group.consumer.session.timeout.ms"
    assert row["allowed"] == (
        "at least 1; group.consumer.min.session.timeout.ms to group.consumer.max.session.timeout.ms"
    )


def test_a_broker_key_says_how_to_set_it() -> None:
    ran = run("config", "explain", "log.retention.hours")
    assert ran.code == 0
    assert "KAFKA_LOG_RETENTION_HOURS" in ran.out
    assert "read-only" in ran.out


def test_a_key_of_both_is_explained_twice() -> None:
    rows = run("config", "explain", "min.insync.replicas", "--format", "json").json
    assert [row["scope"] for row in rows] == ["topic", "broker"]


def test_an_unknown_key_gets_the_nearest() -> None:
    ran = run("config", "explain", "retention.mss")
    assert ran.code == 1
    assert "did you mean retention.ms?" in ran.err


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("remote.log.storage.system.enable", "true stops the start."),
        ("remote.storage.enable", "true is rejected."),
    ],
)
def test_a_key_that_is_rejected_is_not_called_accepted(name: str, end: str) -> None:
    (row,) = run("config", "explain", name, "--format", "json").json
    assert row["documentation"].endswith(f"not served yet: {end}")


def test_a_key_of_older_kafkas_gets_the_way_out() -> None:
    ran = run("config", "explain", "zookeeper.connect")
    assert ran.code == 1
    assert "there is no ZooKeeper here" in ran.err


@pytest.mark.parametrize(
    ("said", "right"),
    [
        (["orders", "retention.ms=1"], "retention.ms=1 --topic orders"),
        (["retention.ms=1", "orders"], "retention.ms=1 --topic orders"),
        (["orders"], "KEY=VALUE --topic orders"),
        (["topic", "orders", "retention.ms=1"], "retention.ms=1 --topic orders"),
        (
            ["group", "g", "share.auto.offset.reset=latest"],
            "share.auto.offset.reset=latest --group g",
        ),
        (["broker", "1", "log.cleaner.threads=2"], "log.cleaner.threads=2 --broker 1"),
        (["topic", "orders", "retention.ms", "1"], "retention.ms=1 --topic orders"),
        (["orders", "retention.ms", "1"], "retention.ms=1 --topic orders"),
        (["retention.ms", "1"], "retention.ms=1 --topic NAME"),
        (["retention.ms", "1", "--topic", "orders"], "retention.ms=1 --topic orders"),
        (["log.cleaner.threads", "2", "--all-brokers"], "log.cleaner.threads=2 --all-brokers"),
        (["topic", "retention.ms=1"], "retention.ms=1 --topic topic"),
        (
            ["ssl.keystore.password", "secret9", "--broker", "1"],
            "ssl.keystore.password=VALUE --broker 1",
        ),
    ],
)
def test_a_topic_among_the_keys_gets_the_right_order(said: list[str], right: str) -> None:
    ran = run("config", "set", *said)
    assert ran.code == ExitCode.USAGE
    assert f"`penstock config set {right}`" in ran.err
    assert "secret9" not in ran.err


def test_a_word_that_is_no_pair_is_rejected_beside_its_topic() -> None:
    ran = run("config", "set", "retention", "1", "--topic", "orders")
    assert (ran.code, ran.err) == (ExitCode.USAGE, "error: set retention: must be KEY=VALUE\n")
