"""Sources, their order, and what a user is told."""

import pytest

from penstock.config import ConfigRejected, ConfigSource, ConfigText, Loaded, load

SAMPLE = """
############################# Server Basics #############################
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093

# Socket server
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600

log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2

offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def load_text(text: str, *sets: str, environment: dict[str, str] | None = None) -> Loaded:
    return load([ConfigText("server.properties", text)], environment, sets)


def refusal(text: str, *sets: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigRejected) as caught:
        load_text(text, *sets, environment=environment)
    return str(caught.value)


def test_kafkas_sample_file_is_accepted_as_it_is() -> None:
    loaded = load_text(SAMPLE)
    assert loaded.warnings == ()
    config = loaded.config
    assert config.node_id == 1
    assert config.roles == ("broker", "controller")
    assert [str(each) for each in config.listeners] == ["PLAINTEXT://:9092", "CONTROLLER://:9093"]
    assert config.sole_voter
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)
    assert config.metadata_log_dir == "/tmp/kraft-combined-logs"
    idle = {each.key: each.why for each in loaded.without_effect}
    assert idle["num.io.threads"] == "nothing here needs it"
    assert "log.dirs" not in idle


def test_the_command_line_comes_before_the_environment_and_that_before_files() -> None:
    environment = {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_NODE_ID": "7"}
    config = load_text(
        "num.partitions=1\nnode.id=5\nlog.segment.bytes=1048576",
        "num.partitions=3",
        environment=environment,
    ).config
    assert config.get("num.partitions") == 3
    assert config.where("num.partitions") == "--set num.partitions"
    assert config.node_id == 7
    assert config.where("node.id") == "environment KAFKA_NODE_ID"
    assert config.where("log.segment.bytes") == "server.properties line 3"
    assert config.where("log.dir") == "default"
    assert config.source("num.partitions") is ConfigSource.STATIC_BROKER


def test_a_bad_value_names_the_file_the_line_and_the_reason() -> None:
    text = refusal("# one\nnode.id=1\nnum.partitions=0\nlog.retention.hours=week")
    assert (
        "line 3: Invalid value 0 for configuration num.partitions: Value must be at least 1" in text
    )
    assert "server.properties line 4: Invalid value week for configuration" in text


def test_a_bad_value_names_the_variable_or_the_option() -> None:
    text = refusal("", "num.partitions=x", environment={"KAFKA_NODE_ID": "-3"})
    assert "environment KAFKA_NODE_ID: Invalid value -3 for configuration node.id" in text
    assert "--set num.partitions: Invalid value x for configuration num.partitions" in text


def test_a_set_without_a_value_is_refused() -> None:
    assert "must be KEY=VALUE" in refusal("", "num.partitions")


def test_zookeeper_stops_with_the_way_out() -> None:
    text = refusal("broker.id=0\nzookeeper.connect=localhost:2181\n")
    assert "server.properties line 2: zookeeper.connect: there is no ZooKeeper here" in text


def test_an_old_address_key_says_what_to_use() -> None:
    assert "listeners=PLAINTEXT" in refusal("port=9092")


def test_a_key_that_kafka_has_dropped_is_only_mentioned() -> None:
    (warning,) = load_text("inter.broker.protocol.version=3.5").warnings
    assert "ignored" in warning


def test_an_unknown_key_gets_the_nearest_known_one() -> None:
    (warning,) = load_text("log.retention.hour=1").warnings
    assert "server.properties line 1" in warning
    assert "did you mean log.retention.hours?" in warning


def test_an_unknown_variable_gets_the_nearest_known_one_in_its_spelling() -> None:
    (warning,) = load_text("", environment={"KAFKA_NUM_PARTITION": "3"}).warnings
    assert "KAFKA_NUM_PARTITIONS" in warning


def test_a_topic_key_in_a_brokers_file_gets_the_brokers_name() -> None:
    (warning,) = load_text("retention.ms=1").warnings
    assert "log.retention.ms" in warning


def test_a_key_twice_in_a_file_counts_the_last_time_and_is_mentioned() -> None:
    loaded = load_text("num.partitions=1\nnum.partitions=2")
    assert loaded.config.get("num.partitions") == 2
    assert loaded.warnings == (
        "num.partitions: server.properties line 1 is overridden by server.properties line 2",
    )


def test_milliseconds_come_before_minutes_and_those_before_hours() -> None:
    hours = "log.retention.hours=2"
    minutes = "log.retention.minutes=5"
    assert load_text(hours).config.get("log.retention.ms") == 7_200_000
    assert load_text(f"{hours}\n{minutes}").config.get("log.retention.ms") == 300_000
    everything = f"{hours}\n{minutes}\nlog.retention.ms=7"
    assert load_text(everything).config.get("log.retention.ms") == 7


def test_for_ever_is_for_ever_in_every_unit() -> None:
    assert load_text("log.retention.hours=-1").config.get("log.retention.ms") == -1


def test_a_weaker_key_from_a_stronger_source_wins() -> None:
    loaded = load_text("log.dirs=/file\nlog.retention.ms=5", "log.dir=/set")
    assert loaded.config.log_dirs == ("/set",)
    assert loaded.config.get("log.retention.ms") == 5
    assert "overridden by --set log.dir" in loaded.warnings[0]


def test_an_empty_value_leaves_a_key_unset() -> None:
    assert load_text("log.dirs=\nlog.dir=/a").config.log_dirs == ("/a",)
    assert load_text("inter.broker.listener.name=").config.inter_broker_listener_name == "PLAINTEXT"


def test_a_broken_escape_names_the_line() -> None:
    assert "server.properties line 1" in refusal("log.dirs=\\uZZZZ")


def test_settings_of_plugins_pass_quietly() -> None:
    loaded = load_text("rsm.config.bucket=x\nmetrics.context.y=z")
    assert loaded.warnings == ()
    assert [each.key for each in loaded.without_effect] == [
        "rsm.config.bucket",
        "metrics.context.y",
    ]
    assert {each.value for each in loaded.without_effect} == {"(hidden)"}


def test_problems_of_values_and_across_keys_are_told_together() -> None:
    text = (
        "num.partitions=0\nlisteners=SASL_PLAINTEXT://127.0.0.1:9092,SASL_SSL://127.0.0.1:9092\n"
        "authorizer.class.name=x\nremote.log.storage.system.enable=true\nlog.dirs=a,a\n"
    )
    with pytest.raises(ConfigRejected) as caught:
        load([ConfigText("f", text)])
    told = "\n".join(caught.value.problems)
    for part in (
        "Invalid value 0 for configuration num.partitions",
        "the listener SASL_PLAINTEXT offers GSSAPI",
        "use the same port",
        "runs no Java",
        "tiered storage is not served yet",
        "log.dirs names a directory twice",
    ):
        assert part in told


@pytest.mark.parametrize(
    "line", ["remote.log.storage.system.enable=true", "authorizer.class.name=x"]
)
def test_a_setting_that_prevents_the_start_is_not_without_effect(line: str) -> None:
    with pytest.raises(ConfigRejected) as caught:
        load([ConfigText("f", line)])
    assert caught.value.without_effect == ()


def test_a_value_that_cannot_be_read_is_blamed_once_and_nothing_that_depends_on_it() -> None:
    with pytest.raises(ConfigRejected) as caught:
        load([ConfigText("f", "socket.request.max.bytes=x\nqueued.max.request.bytes=9\n")])
    assert len(caught.value.problems) == 1


def test_every_listener_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigRejected) as refused:
        load(sets=["listeners=FOO://:1,nonsense", "advertised.listeners=BAR://h:1"])
    assert [each.split(": ", 2)[1:] for each in refused.value.problems] == [
        ["listeners", "nothing says which protocol FOO speaks; add "
         "listener.security.protocol.map=FOO:PLAINTEXT"],
        ["listeners", "'nonsense' is not NAME://host:port, e.g. PLAINTEXT://127.0.0.1:9092"],
        ["advertised.listeners", "nothing says which protocol BAR speaks; add "
         "listener.security.protocol.map=BAR:PLAINTEXT"],
    ]  # fmt: skip
