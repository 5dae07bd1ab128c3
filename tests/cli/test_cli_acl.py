"""`penstock acl` and kafka-acls against a node with an authorizer."""

from collections.abc import Iterator

import pytest
from cli_running import Ran, run
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from penstock.cli.kafka.acls import main as kafka_acls
from penstock.testing import Cluster

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(SETTINGS) as running:
        running.create_topic("orders")
        yield running


@pytest.fixture(autouse=True)
def no_acls(cluster: Cluster) -> Iterator[None]:
    yield
    for user in ("billing", "User:*", "Group:ops"):
        at(cluster, "remove", user, "--all", "--yes")


def at(cluster: Cluster, *arguments: str) -> Ran:
    return run("--bootstrap", cluster.bootstrap, "acl", *arguments)


def rules(ran: Ran) -> list[str]:
    keys = ("permission", "principal", "operation", "type", "name", "pattern", "host")
    return [" ".join(each[key] for key in keys) for each in ran.json]


CONSUMES = ("allow", "billing", "--consume", "orders", "--group", "billing")
READS = "allow User:billing read topic orders literal *"
JOINS = "allow User:billing read group billing literal *"


def test_what_a_consumer_needs_is_allowed_and_removed(cluster: Cluster) -> None:
    assert rules(at(cluster, *CONSUMES, "--format", "json")) == [READS, JOINS]
    assert sorted(rules(at(cluster, "list", "billing", "--format", "json"))) == [JOINS, READS]
    assert rules(at(cluster, "list", "--group", "billing", "--format", "json")) == [JOINS]
    again = at(cluster, *CONSUMES)
    assert (again.code, again.err) == (0, "2 ACLs existed already\n")
    gone = at(cluster, "remove", *CONSUMES[1:], "--yes", "--format", "json")
    assert sorted(rules(gone)) == [JOINS, READS]
    assert at(cluster, "list", "billing", "--format", "json").json == []


def test_a_prefix_covers_names_that_begin_with_it(cluster: Cluster) -> None:
    added = at(cluster, "allow", "Group:ops", "--produce", "ord", "--prefix", "--format", "json")
    assert rules(added) == ["allow Group:ops write topic ord prefixed *"]
    listed = at(cluster, "list", "--topic", "orders", "--format", "json")
    assert rules(listed) == rules(added)


def test_a_dry_run_shows_whose_access_changes_and_stores_nothing(cluster: Cluster) -> None:
    shown = at(cluster, *CONSUMES, "--dry-run", "--format", "json")
    assert [each["changes"] for each in shown.json] == ["User:billing: denied -> allowed"] * 2
    assert at(cluster, "list", "--format", "json").json == []
    at(cluster, *CONSUMES)
    for everyone in ("deny", "allow"):
        ran = at(
            cluster, everyone, "*", "--topic", "orders", "--operation", "read", "--dry-run",
            "--format", "json",
        )  # fmt: skip
        denied = "User:billing: allowed -> denied" in ran.json[0]["changes"]
        assert denied is (everyone == "deny")


def test_a_rule_is_explained(cluster: Cluster) -> None:
    at(cluster, *CONSUMES, "--from", "10.0.0.7")
    asked = ("explain", "billing", "describe", "topic", "orders")
    there = at(cluster, *asked, "--from", "10.0.0.7")
    assert there.out == "allowed: ALLOW User:billing READ TOPIC LITERAL:orders from 10.0.0.7\n"
    elsewhere = at(cluster, *asked, "--from", "10.0.0.8")
    assert (elsewhere.code, elsewhere.out) == (1, "denied: no ACL allows it\n")
    root = at(cluster, "explain", "root", "alter", "cluster", "--format", "json")
    assert root.json == {"verdict": "allowed", "rule": "super.users"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--consume", "orders"), "needs the group"),
        (("--topic", "orders"), "name operations"),
        (("--operation", "read"), "name a resource"),
        (("--produce", "a", "--operation", "read"), "leave --operation out"),
        (("--topic", "orders", "--operation", "fly"), "fly is no operation"),
        (("--group", "g", "--operation", "write"), "no operation of a group"),
    ],
)
def test_a_choice_without_meaning_is_rejected(
    cluster: Cluster, arguments: tuple[str, ...], complaint: str
) -> None:
    ran = at(cluster, "allow", "billing", *arguments)
    assert ran.code == 2
    assert complaint in ran.err


def test_kafkas_command_sees_the_same_rules(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    at(cluster, *CONSUMES)
    assert kafka_acls(["--bootstrap-server", cluster.bootstrap, "--list"]) == 0
    shown = capsys.readouterr().out
    assert "(principal=User:billing, host=*, operation=READ, permissionType=ALLOW)" in shown


def test_clients_without_permission_are_denied() -> None:
    settings = {**SETTINGS, "super.users": "User:root"}
    with Cluster(settings) as guarded:
        admin = AdminClient({"bootstrap.servers": guarded.bootstrap})
        assert admin.list_topics(timeout=10).topics == {}
        reports: list[ConfluentError | None] = []
        producer = Producer({"bootstrap.servers": guarded.bootstrap})
        producer.produce("orders", b"value", on_delivery=lambda error, _: reports.append(error))
        producer.flush(10)
        [error] = reports
        assert error is not None and error.code() == ConfluentError.TOPIC_AUTHORIZATION_FAILED
