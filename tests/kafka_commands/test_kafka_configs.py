"""kafka-configs."""

import pytest
from kafka_running import Node, Ran


def altered(node: Node, topic: str, *arguments: str) -> Ran:
    return node.ran(
        "configs", "--alter", "--entity-type", "topics", "--entity-name", topic, *arguments
    )


def test_a_topic_has_nothing_of_its_own(node: Node, topic: str) -> None:
    found = node.done("configs", "--describe", "--topic", topic)
    assert found.out == f"Dynamic configs for topic {topic} are:\n"


def test_what_is_added_is_described_with_its_sources(node: Node, topic: str) -> None:
    done = altered(node, topic, "--add-config", "retention.ms=5,cleanup.policy=[compact,delete]")
    assert done.out == f"Completed updating config for topic {topic}.\n"
    assert node.done("configs", "--describe", "--topic", topic).lines[1:] == [
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:"
        "cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5}",
    ]


def test_what_is_deleted_is_gone(node: Node, topic: str) -> None:
    altered(node, topic, "--add-config", "retention.ms=5")
    altered(node, topic, "--delete-config", "retention.ms")
    assert len(node.done("configs", "--describe", "--topic", topic).lines) == 1


def test_all_shows_what_nobody_has_set(node: Node, topic: str) -> None:
    found = node.done("configs", "--describe", "--topic", topic, "--all")
    assert found.lines[0] == f"All configs for topic {topic} are:"
    assert any(line.startswith("  max.message.bytes=") for line in found.lines)


def test_keys_come_from_a_file(node: Node, topic: str, tmp_path: object) -> None:
    path = f"{tmp_path}/add.properties"
    with open(path, "w") as file:
        file.write("retention.ms=6\n")
    assert altered(node, topic, "--add-config-file", path).code == 0
    assert "retention.ms=6 " in node.done("configs", "--describe", "--topic", topic).out


def test_all_brokers_have_settings_in_common(node: Node) -> None:
    done = node.done(
        "configs", "--alter", "--broker-defaults", "--add-config", "log.cleaner.threads=2"
    )
    assert done.out == "Completed updating default config for brokers in the cluster.\n"
    found = node.done("configs", "--describe", "--entity-type", "brokers")
    assert found.lines[0] == "Dynamic configs for broker 1 are:"
    assert "Default configs for brokers in the cluster are:" in found.lines
    assert any(line.startswith("  log.cleaner.threads=2 sensitive=false") for line in found.lines)


def test_a_topic_that_is_missing_is_told(node: Node, name: str) -> None:
    found = node.done("configs", "--describe", "--topic", name)
    assert found.out == f"The topic '{name}' doesn't exist and doesn't have dynamic config.\n"


def test_a_bad_value_is_told_with_what_was_typed(node: Node, topic: str) -> None:
    found = altered(node, topic, "--add-config", "retention.ms=x")
    assert found.code == 1
    assert found.complaint.startswith("Error while executing config command with args '--bootstrap")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--describe",), "At least one entity type must be specified"),
        (("--describe", "--entity-type", "x"), "Invalid entity type x, the entity type must be"),
        (
            ("--describe", "--topic", "x", "--broker", "1"),
            "Only 'users' and 'clients' entity types",
        ),
        (("--describe", "--broker", "x"), "The entity name for brokers must be a valid integer"),
        (("--alter", "--topic", "x"), "At least one of --add-config, --add-config-file, or"),
        (("--alter", "--topic", "x", "--add-config", "a"), "Invalid entity config: all configs"),
        (("--alter", "--entity-type", "topics", "--add-config", "a=b"), "An entity name must be"),
        (
            ("--describe", "--topic", "x", "--entity-type", "topics"),
            "Duplicate entity type(s) specified: topics",
        ),
    ],
)
def test_an_entity_that_cannot_be_is_refused(
    node: Node, arguments: tuple[str, ...], complaint: str
) -> None:
    found = node.ran("configs", *arguments)
    assert found.code == 1 and found.complaint.startswith(complaint)


def test_both_ways_in_are_one_too_many(node: Node) -> None:
    found = node.ran("configs", "--bootstrap-controller", "x:1", "--describe", "--broker", "1")
    assert found.complaint.startswith("Only one of --bootstrap-server or --bootstrap-controller")


@pytest.mark.parametrize("kind", ["broker", "broker-logger"])
def test_a_broker_that_is_not_there_has_no_settings(node: Node, kind: str) -> None:
    found = node.done("configs", "--describe", f"--{kind}", "9")
    assert found.out == f"The {kind} '9' doesn't exist and doesn't have dynamic config.\n"


def test_users_are_added_described_and_removed(node: Node) -> None:
    user = ("--entity-type", "users", "--entity-name", "configs-alice")
    secret = "SCRAM-SHA-256=[iterations=5000,password=alice-secret]"
    added = node.done("configs", "--alter", *user, "--add-config", secret)
    assert added.out == "Completed updating config for user configs-alice.\n"
    described = node.done("configs", "--describe", *user)
    shown = "for user-principal 'configs-alice' are SCRAM-SHA-256=iterations=5000"
    assert described.out == f"SCRAM credential configs {shown}\n"
    node.done("configs", "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert node.done("configs", "--describe", *user).out == ""


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("[iterations=4095,password=x]", "Iterations 4095 is less than the minimum 4096"),
        ("[iterations=16385,password=x]", "Too many iterations"),
        ("[name=x]", "Invalid credential property SCRAM-SHA-256"),
    ],
)
def test_a_credential_against_the_rules_is_rejected(node: Node, value: str, complaint: str) -> None:
    user = ("--entity-type", "users", "--entity-name", "configs-bob")
    found = node.ran("configs", "--alter", *user, "--add-config", f"SCRAM-SHA-256={value}")
    assert found.code == 1 and complaint in found.err + found.out
