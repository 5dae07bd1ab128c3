"""Names and patterns that commands take, and the names that may be meant by wrong ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_clients import WAIT_SECONDS_MAX, commit, transactional
from cli_running import Ran, run

from penstock.cli.arguments.known_names import no_match
from penstock.cli.config.keys import dynamic_sibling
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        for name in ("orders", "orders-late", "payments"):
            running.create_topic(name)
            assert at(running, "produce", name, stdin=name.encode() + b"\n").code == 0
        commit(running.bootstrap, "billing", "orders", {0: 1})
        yield running


def at(cluster: Cluster, *arguments: str, stdin: bytes = b"") -> Ran:
    return run("--bootstrap", cluster.bootstrap, *arguments, stdin=stdin)


# -- several topics


def test_several_topics_are_read_together(cluster: Cluster) -> None:
    ran = at(cluster, "consume", "orders", "payments", "--offsets")
    assert sorted(ran.out.splitlines()) == ["orders:0:0\torders", "payments:0:0\tpayments"]


def test_topics_are_chosen_by_a_pattern_over_whole_names(cluster: Cluster) -> None:
    ran = at(cluster, "consume", "--pattern", "orders.*")
    assert sorted(ran.out.splitlines()) == ["orders", "orders-late"]
    assert at(cluster, "consume", "--pattern", "orders").out == "orders\n"


def test_a_group_reads_several_topics(cluster: Cluster) -> None:
    ran = at(cluster, "consume", "--pattern", "pay.*|orders-late", "--group", "several")
    assert sorted(ran.out.splitlines()) == ["orders-late", "payments"]


@pytest.mark.parametrize(
    ("said", "code", "told"),
    [
        ((), 2, "say what to read: TOPIC..., or --pattern REGEX"),
        (("orders", "--pattern", "o.*"), 2, "say what to read"),
        (("--pattern", "("), 2, "--pattern '(' is no regular expression: missing )"),
        (("--pattern", "nothing"), 1, "--pattern 'nothing' matches none of "),
        (("orders", "payments", "--partition", "0"), 2, "--partition goes with one topic"),
    ],
)
def test_a_choice_of_topics_that_cannot_be(
    cluster: Cluster, said: tuple[str, ...], code: int, told: str
) -> None:
    ran = at(cluster, "consume", *said)
    assert ran.code == code
    assert told in ran.err


def test_topics_are_listed_by_a_pattern(cluster: Cluster) -> None:
    ran = at(cluster, "topic", "list", "orders.*", "--format", "json")
    assert [row["name"] for row in ran.json] == ["orders", "orders-late"]
    assert at(cluster, "topic", "list", "[").code == 2


# -- names that are not there


@pytest.mark.parametrize(
    "said",
    [
        ("consume", "order"),
        ("topic", "describe", "order"),
        ("topic", "alter", "order", "--partitions", "3"),
        ("topic", "delete", "order", "--yes"),
        ("topic", "offsets", "order"),
    ],
)
def test_a_topic_that_is_not_there_names_the_one_that_may_be_meant(
    cluster: Cluster, said: tuple[str, ...]
) -> None:
    ran = at(cluster, *said)
    assert ran.code == 1
    assert "there is no topic order; did you mean orders?" in ran.err


@pytest.mark.parametrize(
    "said",
    [("describe", "biling"), ("delete", "biling", "--yes"), ("delete", "biling", "--dry-run")],
)
def test_a_group_that_is_not_there_names_the_one_that_may_be_meant(
    cluster: Cluster, said: tuple[str, ...]
) -> None:
    ran = at(cluster, "group", *said)
    assert ran.code == 1
    assert "there is no group biling; did you mean billing?" in ran.err


def test_produce_says_that_the_server_created_the_topic(cluster: Cluster) -> None:
    ran = at(cluster, "produce", "paymens", stdin=b"1\n")
    assert ran.code == 0
    told = "note: there was no topic paymens, so the server created it; did you mean payments?\n"
    assert told in ran.err
    again = at(cluster, "produce", "paymens", "--format", "json", stdin=b"1\n")
    assert again.json["created"] is False
    assert "created it" not in again.err


# -- transactions


def test_the_open_transaction_of_an_id_is_aborted(cluster: Cluster) -> None:
    producer = transactional(cluster.bootstrap, "shop-1")
    producer.produce("orders", b"never seen")
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    shown = at(cluster, "txn", "abort", "shop-1", "--dry-run", "--format", "json")
    assert shown.json[0]["partitions"] == "orders:0"
    assert at(cluster, "txn", "abort", "shop-1").code == 2, "stdin is no terminal"
    assert at(cluster, "txn", "abort", "shop-1", "--yes").out == "shop-1: aborted\n"
    (row,) = at(cluster, "txn", "describe", "shop-1", "--format", "json").json
    assert row["state"] in ("PrepareAbort", "CompleteAbort", "Empty")
    again = at(cluster, "txn", "abort", "shop-1", "--yes")
    assert again.code == 1
    assert "shop-1 " in again.err
    typo = at(cluster, "txn", "abort", "shop1", "--yes")
    assert "there is no transactional id shop1; did you mean shop-1?" in typo.err


@pytest.mark.parametrize("said", [(), ("x", "--topic", "orders"), ("--topic", "orders")])
def test_an_abort_names_one_transaction(said: tuple[str, ...]) -> None:
    ran = run("txn", "abort", *said)
    assert ran.code == 2
    assert "say which transaction: ID, or --topic and --partition" in ran.err


# -- keys


@pytest.mark.parametrize(
    ("key", "sibling"),
    [
        ("log.retention.hours", ("log.retention.ms", 3_600_000)),
        ("log.retention.minutes", ("log.retention.ms", 60_000)),
        ("log.roll.hours", ("log.roll.ms", 3_600_000)),
        ("log.retention.ms", None),
        ("node.id", None),
        ("zork", None),
    ],
)
def test_a_read_only_key_has_a_sibling_that_can_change(
    key: str, sibling: tuple[str, int] | None
) -> None:
    assert dynamic_sibling(key) == sibling


def test_a_read_only_key_names_its_dynamic_sibling(cluster: Cluster) -> None:
    ran = at(cluster, "config", "set", "log.retention.hours=2", "--all-brokers")
    assert ran.code == 1
    assert "`penstock config set log.retention.ms=7200000 --all-brokers`" in ran.err


def test_a_profile_is_made_with_the_options_of_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_CONFIG", str(tmp_path / "config.toml"))
    assert run("profile", "set", "dev", "--bootstrap", "h:1", "--namespace", "dev.").code == 0
    shown = run("profile", "show", "dev", "--format", "json").json
    assert (shown["bootstrap"], shown["namespace"]) == ("h:1", "dev.")
    assert run("profile", "set", "dev").code == 2


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("ord*", "'ord*' matches none of 3 topics; it is a regular expression over whole names: "
         "is 'ord.*' meant?"),
        ("zzz", "e.g. 'zzz.*' for those that begin with it"),
        ("z+", "it is a regular expression over whole names\n"),
    ],
)  # fmt: skip
def test_a_list_that_a_pattern_leaves_empty_has_a_hint(pattern: str, hint: str) -> None:
    assert hint in no_match(pattern, "3 topics") + "\n"


def test_a_list_says_that_the_pattern_matches_nothing(cluster: Cluster) -> None:
    ran = at(cluster, "topic", "list", "ord*")
    assert ran.code == 0
    assert "is 'ord.*' meant?" in ran.err


@pytest.mark.parametrize("command", ["topic list", "produce", "profile set", "txn recover"])
def test_a_usage_has_single_brackets(command: str) -> None:
    usage = run(*command.split(), "--help").out.splitlines()[0]
    assert "[[" not in usage


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("set", ("retention.ms=1000",)),
        ("unset", ("retention.ms",)),
        ("unset", ("no.such.key",)),
        ("describe", ()),
        ("describe", ("retention.ms",)),
    ],
)
def test_settings_of_a_missing_topic_name_the_similar_one(
    cluster: Cluster, verb: str, said: tuple[str, ...]
) -> None:
    ran = at(cluster, "config", verb, *said, "--topic", "order")
    assert ran.code == 1
    assert "there is no topic order; did you mean orders?" in ran.err


def test_settings_of_a_missing_group_name_the_similar_one_and_are_kept(cluster: Cluster) -> None:
    session = "consumer.session.timeout.ms"
    for verb, key in (("set", f"{session}=46000"), ("describe", session), ("unset", session)):
        ran = at(cluster, "config", verb, key, "--group", "biling")
        assert ran.code == 0
        assert ran.err == "note: there is no group biling yet; did you mean billing?\n"


def test_settings_of_a_group_get_no_note(cluster: Cluster) -> None:
    assert at(cluster, "config", "describe", "--group", "billing").err == ""


def test_deleted_offsets_of_a_missing_group_name_the_similar_one(cluster: Cluster) -> None:
    ran = at(cluster, "group", "delete-offsets", "biling", "--topic", "orders", "--yes")
    assert ran.code == 1
    assert "there is no group biling; did you mean billing?" in ran.err
