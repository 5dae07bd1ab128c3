"""What is wrong with a configuration is said with the place where it stands."""

import pytest

from penstock.config import BrokerConfig, ConfigRejected, ConfigText, load
from penstock.errors import InvalidConfig

FILE = "server.properties"


def problems(text: str, *sets: str, environment: dict[str, str] | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigRejected) as caught:
        load([ConfigText(FILE, text)], environment, sets)
    return caught.value.problems


@pytest.mark.parametrize(
    ("lines", "line", "part"),
    [
        ("listeners=9092", 2, "is not NAME://host:port"),
        ("listeners=PLAINTEXT://:99999", 2, "has a port above"),
        ("listeners=INSIDE://:9092", 2, "nothing says which protocol INSIDE speaks"),
        ("listeners=PLAINTEXT://:1,PLAINTEXT://:2", 2, "names PLAINTEXT twice"),
        ("listeners=", 2, "listeners is empty"),
        ("listener.security.protocol.map=A:B", 2, "is not NAME:PROTOCOL"),
        ("advertised.listeners=x", 2, "is not NAME://host:port"),
        ("advertised.listeners=SSL://a:1", 2, "which is not one of listeners"),
        ("advertised.listeners=PLAINTEXT://0.0.0.0:9092", 2, "clients cannot connect"),
        ("listeners=PLAINTEXT://0.0.0.0:9092", 2, "clients cannot connect"),
        ("inter.broker.listener.name=X", 2, "is not one of the listeners"),
        ("controller.quorum.voters=here", 2, "is not id@host:port"),
        ("controller.quorum.voters=2@h:1\ncontroller.listener.names=C", 2, "has no node 1"),
        ("controller.quorum.bootstrap.servers=here", 2, "has no host:port"),
        ("process.roles=broker", 2, "nothing says where one is"),
        ("log.dirs=a,a", 2, "names a directory twice"),
        ("log.dirs=,", 2, "names no directory"),
        ("log.retention.ms=0", 2, "log.retention.ms"),
        ("log.retention.minutes=0", 2, "log.retention.minutes"),
        ("log.retention.hours=0", 2, "log.retention.hours"),
        ("log.retention.hours=0\nlog.retention.minutes=0", 3, "log.retention.minutes"),
        ("log.roll.ms=0", 2, "log.roll.ms"),
        ("log.roll.ms=-1", 2, "log.roll.ms"),
        ("log.roll.jitter.ms=-1", 2, "log.roll.jitter.ms"),
        ("authorizer.class.name=x", 2, "runs no Java"),
        ("super.users=alice", 2, "is no principal"),
        ("remote.log.storage.system.enable=true", 2, "tiered storage"),
    ],
)
def test_a_problem_across_keys_names_the_file_and_the_line(
    lines: str, line: int, part: str
) -> None:
    told = [each for each in problems(f"num.partitions=1\n{lines}") if part in each]
    assert [each.startswith(f"{FILE} line {line}: ") for each in told] == [True]


def test_it_names_the_variable_or_the_option_where_that_is_the_place() -> None:
    [told] = problems("", environment={"KAFKA_LOG_RETENTION_HOURS": "0"})
    assert told.startswith("environment KAFKA_LOG_RETENTION_HOURS: ")
    [told] = problems("", "log.dirs=a,a")
    assert told.startswith("--set log.dirs: ")


def test_without_a_file_the_place_is_the_settings() -> None:
    with pytest.raises(InvalidConfig, match=r"^settings: log\.dirs names a directory twice\."):
        BrokerConfig.of({"log.dirs": "a,a"})


@pytest.mark.parametrize("key", ["broker.id", "node.id"])
@pytest.mark.parametrize("number", ["-5", "-1"])
def test_a_number_of_a_node_is_not_below_zero(key: str, number: str) -> None:
    assert problems(f"{key}={number}") == (
        f"{FILE} line 1: Invalid value {number} for configuration {key}: Value must be at least 0",
    )


def test_a_bad_value_does_not_hide_the_warnings() -> None:
    text = "num.partition=3\nnum.partitions=x\nlog.retention.hour=1"
    with pytest.raises(ConfigRejected) as caught:
        load([ConfigText(FILE, text)])
    assert [each.partition(":")[0] for each in caught.value.warnings] == [
        f"{FILE} line 1",
        f"{FILE} line 3",
    ]


def test_a_problem_across_keys_does_not_hide_them_either() -> None:
    with pytest.raises(ConfigRejected) as caught:
        load([ConfigText(FILE, "num.partition=3\nlisteners=x")])
    assert len(caught.value.warnings) == 1


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    loaded = load([ConfigText(FILE, "\ufeffnum.partitions=3\nnode.id=2")])
    assert loaded.warnings == ()
    assert loaded.config.get("num.partitions") == 3
    assert loaded.config.where("node.id") == f"{FILE} line 2"
