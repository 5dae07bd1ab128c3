"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

import pytest
from api_asking import Asker, new_topic, unused_name, versions

from penstock import errors
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k32_describe_configs as k32
from penstock.wire.messages import k33_alter_configs as k33
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.wire.messages import k74_list_config_resources as k74

pytest_plugins = ["api_fixtures"]

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
TOPIC_SOURCE, CLUSTER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 3, 4, 5
CLIENT_METRICS_SOURCE = 7
LONG, LIST = 5, 7
READ_ONLY = "Cannot update these configs dynamically: [{}]"
WEEK_MS = "604800000"


def _describe(
    asker: Asker,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> k32.DescribeConfigsResult:
    wanted = k32.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = k32.DescribeConfigsRequest(
        resources=[wanted], include_synonyms=synonyms, include_documentation=documentation
    )
    [one] = asker.ask(request, version).results
    assert isinstance(one, k32.DescribeConfigsResult)
    return one


def _one(asker: Asker, topic: str, key: str) -> k32.DescribeConfigsResourceResult:
    [entry] = _describe(asker, TOPIC, topic, [key], synonyms=True).configs
    return entry


def _value(asker: Asker, topic: str, key: str) -> str | None:
    return _one(asker, topic, key).value


def _change(
    asker: Asker,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int = 1,
    validate_only: bool = False,
) -> int:
    code, _text = _answer(asker, kind, name, *changes, version=version, validate_only=validate_only)
    return code


def _answer(
    asker: Asker,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int = 1,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    configs = [
        k44.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    wanted = k44.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = k44.IncrementalAlterConfigsRequest(resources=[wanted], validate_only=validate_only)
    [one] = asker.ask(request, version).responses
    assert (one.resource_type, one.resource_name) == (kind, name)
    return one.error_code, one.error_message


def _replace(
    asker: Asker,
    kind: int,
    name: str,
    *settings: tuple[str, str | None],
    version: int = 2,
    validate_only: bool = False,
) -> int:
    configs = [k33.AlterableConfig(name=key, value=value) for key, value in settings]
    wanted = k33.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = k33.AlterConfigsRequest(resources=[wanted], validate_only=validate_only)
    [one] = asker.ask(request, version).responses
    assert (one.resource_type, one.resource_name) == (kind, name)
    code: int = one.error_code
    return code


# -- DescribeConfigs


@pytest.mark.parametrize("version", versions(32))
def test_a_setting_comes_with_its_source(
    asker: Asker, penstock_cluster: Cluster, version: int
) -> None:
    topic = new_topic(penstock_cluster, config={"retention.ms": "1000"})
    keys = ["retention.ms", "cleanup.policy"]
    answer = _describe(asker, TOPIC, topic, keys, version=version)
    told = {each.name: (each.value, each.config_source) for each in answer.configs}
    assert told == {
        "retention.ms": ("1000", TOPIC_SOURCE),
        "cleanup.policy": ("delete", DEFAULT_SOURCE),
    }
    assert all(each.synonyms == [] for each in answer.configs)


@pytest.mark.parametrize("version", [3, 4])
def test_types_are_told_from_v3_on(asker: Asker, topic: str, version: int) -> None:
    keys = ["retention.ms", "cleanup.policy"]
    answer = _describe(asker, TOPIC, topic, keys, version=version)
    assert {each.name: each.config_type for each in answer.configs} == {
        "retention.ms": LONG,
        "cleanup.policy": LIST,
    }


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("wanted", [False, True])
def test_documentation_is_told_on_request(
    asker: Asker, topic: str, version: int, wanted: bool
) -> None:
    [entry] = _describe(
        asker, TOPIC, topic, ["retention.ms"], version=version, documentation=wanted
    ).configs
    assert bool(entry.documentation) == wanted


@pytest.mark.parametrize("version", versions(32))
def test_synonyms_lead_from_the_topic_to_the_default(
    asker: Asker, penstock_cluster: Cluster, version: int
) -> None:
    topic = new_topic(penstock_cluster, config={"max.message.bytes": "2000"})
    [entry] = _describe(
        asker, TOPIC, topic, ["max.message.bytes"], version=version, synonyms=True
    ).configs
    assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
        ("max.message.bytes", "2000", TOPIC_SOURCE),
        ("message.max.bytes", "1048588", DEFAULT_SOURCE),
    ]


@pytest.mark.parametrize("keys", [None, []], ids=["null", "empty"])
def test_no_keys_mean_all_of_them(asker: Asker, topic: str, keys: list[str] | None) -> None:
    names = {each.name for each in _describe(asker, TOPIC, topic, keys).configs}
    assert {"retention.ms", "cleanup.policy", "segment.bytes"} <= names


def test_an_unknown_key_is_left_out(asker: Asker, topic: str) -> None:
    names = [each.name for each in _describe(asker, TOPIC, topic, ["zork", "segment.ms"]).configs]
    assert names == ["segment.ms"]


@pytest.mark.parametrize("version", versions(32))
@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "no-such-topic", errors.UnknownTopicOrPartition),
        (TOPIC, "bad name", errors.InvalidTopic),
        (TOPIC, "", errors.InvalidTopic),
        (BROKER, "2", errors.InvalidRequest),
        (BROKER, "zork", errors.InvalidRequest),
        (BROKER_LOGGER, "2", errors.InvalidRequest),
        (CLIENT_METRICS, "", errors.InvalidRequest),
        (GROUP, "", errors.InvalidRequest),
        (0, "x", errors.InvalidRequest),
        (99, "x", errors.InvalidRequest),
    ],
)
def test_what_has_no_settings_is_refused(
    asker: Asker, version: int, kind: int, name: str, error: type[errors.KafkaError]
) -> None:
    answer = _describe(asker, kind, name, version=version)
    assert (answer.error_code, answer.configs) == (error.code, [])


@pytest.mark.parametrize("version", versions(32))
def test_a_broker_describes_itself(asker: Asker, version: int) -> None:
    answer = _describe(asker, BROKER, "1", version=version)
    told = {each.name: each for each in answer.configs}
    assert answer.error_code == 0
    assert told["node.id"].read_only
    assert told["listeners"].config_source == STATIC_SOURCE
    assert not told["log.retention.ms"].read_only


def test_secrets_are_not_told(asker: Asker) -> None:
    [entry] = _describe(asker, BROKER, "1", ["ssl.keystore.password"]).configs
    assert (entry.is_sensitive, entry.value) == (True, None)


def test_loggers_have_levels(asker: Asker) -> None:
    told = {each.name: each.value for each in _describe(asker, BROKER_LOGGER, "1").configs}
    assert told["root"] in {"DEBUG", "INFO", "WARN", "ERROR"}


# -- IncrementalAlterConfigs


@pytest.mark.parametrize("version", versions(44))
def test_a_value_is_set_and_deleted(asker: Asker, topic: str, version: int) -> None:
    assert _change(asker, TOPIC, topic, ("retention.ms", SET, "5000"), version=version) == 0
    after_set = _one(asker, topic, "retention.ms")
    assert _change(asker, TOPIC, topic, ("retention.ms", DELETE, None), version=version) == 0
    after_delete = _one(asker, topic, "retention.ms")
    assert (after_set.value, after_set.config_source) == ("5000", TOPIC_SOURCE)
    assert (after_delete.value, after_delete.config_source) == (WEEK_MS, DEFAULT_SOURCE)


@pytest.mark.parametrize("version", versions(44))
def test_a_list_grows_and_shrinks(asker: Asker, topic: str, version: int) -> None:
    change = ("cleanup.policy", APPEND, "compact")
    assert _change(asker, TOPIC, topic, change, version=version) == 0
    assert _value(asker, topic, "cleanup.policy") == "delete,compact"
    change = ("cleanup.policy", SUBTRACT, "delete")
    assert _change(asker, TOPIC, topic, change, version=version) == 0
    assert _value(asker, topic, "cleanup.policy") == "compact"


@pytest.mark.parametrize("version", versions(44))
def test_an_incremental_change_leaves_the_other_keys(
    asker: Asker, penstock_cluster: Cluster, version: int
) -> None:
    topic = new_topic(penstock_cluster, config={"segment.ms": "70000"})
    _change(asker, TOPIC, topic, ("retention.ms", SET, "5000"), version=version)
    assert _value(asker, topic, "segment.ms") == "70000"


@pytest.mark.parametrize("version", versions(44))
def test_validate_only_changes_nothing(asker: Asker, topic: str, version: int) -> None:
    change = ("retention.ms", SET, "5000")
    assert _change(asker, TOPIC, topic, change, version=version, validate_only=True) == 0
    assert _value(asker, topic, "retention.ms") == WEEK_MS


@pytest.mark.parametrize("version", versions(44))
@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("retention.ms", SET, "zork"), errors.InvalidConfig),
        (("zork", SET, "1"), errors.InvalidConfig),
        (("retention.ms", APPEND, "1"), errors.InvalidConfig),
        (("retention.ms", SUBTRACT, "1"), errors.InvalidConfig),
        (("cleanup.policy", APPEND, "zork"), errors.InvalidConfig),
        (("retention.ms", SET, None), errors.InvalidRequest),
        (("retention.ms", 9, "1"), errors.InvalidRequest),
    ],
    ids=str,
)
def test_a_change_that_cannot_be_is_refused(
    asker: Asker,
    topic: str,
    version: int,
    change: tuple[str, int, str | None],
    error: type[errors.KafkaError],
) -> None:
    assert _change(asker, TOPIC, topic, change, version=version) == error.code
    assert _value(asker, topic, "retention.ms") == WEEK_MS


@pytest.mark.parametrize("version", versions(44))
@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "no-such-topic", errors.UnknownTopicOrPartition),
        (TOPIC, "bad name", errors.InvalidTopic),
        (TOPIC, "", errors.InvalidRequest),
        (BROKER, "zork", errors.InvalidRequest),
        (CLIENT_METRICS, "", errors.InvalidRequest),
        (0, "x", errors.InvalidRequest),
        (99, "x", errors.InvalidRequest),
    ],
)
def test_what_cannot_be_configured_is_refused(
    asker: Asker, version: int, kind: int, name: str, error: type[errors.KafkaError]
) -> None:
    assert _change(asker, kind, name, ("retention.ms", SET, "1"), version=version) == error.code


def test_a_key_that_is_named_twice_is_refused(asker: Asker, topic: str) -> None:
    changes = (("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    code, text = _answer(asker, TOPIC, topic, *changes)
    assert code == errors.InvalidRequest.code
    assert (text or "").startswith("Error due to duplicate config keys")


def test_one_bad_key_refuses_the_whole_resource(asker: Asker, topic: str) -> None:
    changes = (("retention.ms", SET, "1"), ("zork", SET, "2"))
    assert _change(asker, TOPIC, topic, *changes) == errors.InvalidConfig.code
    assert _value(asker, topic, "retention.ms") == WEEK_MS


def test_one_bad_resource_does_not_stop_the_others(asker: Asker, topic: str) -> None:
    configs = [k44.AlterableConfig(name="retention.ms", config_operation=SET, value="5000")]
    wanted = [
        k44.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs)
        for name in ("no-such-topic", topic)
    ]
    answer = asker.ask(k44.IncrementalAlterConfigsRequest(resources=wanted), 1)
    codes = {each.resource_name: each.error_code for each in answer.responses}
    assert codes == {"no-such-topic": errors.UnknownTopicOrPartition.code, topic: 0}


def test_a_default_for_all_brokers_reaches_the_topics(asker: Asker, topic: str) -> None:
    key, topic_key = "log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms"
    assert _change(asker, BROKER, "", (key, SET, "7000000")) == 0
    during = _one(asker, topic, topic_key)
    assert _change(asker, BROKER, "", (key, DELETE, None)) == 0
    after = _one(asker, topic, topic_key)
    assert (during.value, during.config_source) == ("7000000", CLUSTER_SOURCE)
    assert (after.value, after.config_source) == ("3600000", DEFAULT_SOURCE)


@pytest.mark.parametrize(
    ("kind", "change", "error", "text"),
    [
        (BROKER, ("node.id", SET, "8"), errors.InvalidRequest, READ_ONLY.format("node.id")),
        (
            BROKER,
            ("remote.log.storage.system.enable", SET, "true"),
            errors.InvalidRequest,
            READ_ONLY.format("remote.log.storage.system.enable"),
        ),
        (
            BROKER,
            ("log.retention.ms", SET, "zork"),
            errors.InvalidRequest,
            "Invalid value zork for configuration log.retention.ms: Not a number of type LONG",
        ),
        (BROKER, ("zork", SET, "1"), errors.InvalidConfig, "Unknown broker config name: zork"),
        (
            BROKER,
            ("min.insync.replicas", SET, "1"),
            errors.InvalidConfig,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            TOPIC,
            ("compression.type", SET, "zip"),
            errors.InvalidConfig,
            "Invalid value zip for configuration compression.type: String must be one of: "
            "uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            TOPIC,
            ("cleanup.policy", SET, "zork"),
            errors.InvalidConfig,
            "Invalid value zork for configuration cleanup.policy: String must be one of: "
            "compact, delete",
        ),
        (
            TOPIC,
            ("preallocate", SET, "yes"),
            errors.InvalidConfig,
            "Invalid value yes for configuration preallocate: "
            "Expected value to be either true or false",
        ),
        (
            TOPIC,
            ("retention.ms", SET, None),
            errors.InvalidRequest,
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            ("remote.storage.enable", SET, "true"),
            errors.InvalidConfig,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
        (
            GROUP,
            ("consumer.session.timeout.ms", SET, "1"),
            errors.InvalidConfig,
            "consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
        (
            GROUP,
            ("consumer.heartbeat.interval.ms", SET, "99999999"),
            errors.InvalidConfig,
            "consumer.heartbeat.interval.ms must be less than or equal to "
            "group.consumer.max.heartbeat.interval.ms",
        ),
        (
            CLIENT_METRICS,
            ("zork", SET, "1"),
            errors.InvalidRequest,
            "Unknown client metrics configuration: zork",
        ),
        (
            CLIENT_METRICS,
            ("interval.ms", SET, "1"),
            errors.InvalidRequest,
            "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            CLIENT_METRICS,
            ("match", SET, "zork=1"),
            errors.InvalidConfig,
            "Illegal client matching pattern: zork=1",
        ),
        (
            CLIENT_METRICS,
            ("match", SET, "client_id=("),
            errors.InvalidConfig,
            "Illegal client matching pattern: client_id=(",
        ),
        (
            TOPIC,
            ("cleanup.policy", APPEND, "foo"),
            errors.InvalidConfig,
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, ",
        ),
        (
            GROUP,
            ("share.auto.offset.reset", SET, "foo"),
            errors.InvalidConfig,
            "Invalid value foo for configuration share.auto.offset.reset: Invalid value `foo` for "
            "configuration share.auto.offset.reset. The value must be either 'earliest', 'latest'",
        ),
        (
            BROKER,
            ("log.cleaner.threads", SET, "500"),
            errors.InvalidRequest,
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner "
            "thread.",
        ),
        (
            BROKER,
            ("max.connections", SET, "0"),
            errors.InvalidRequest,
            "Invalid max.connections 0",
        ),
    ],
    ids=str,
)
def test_a_refusal_begins_with_kafkas_sentence(
    asker: Asker,
    topic: str,
    kind: int,
    change: tuple[str, int, str | None],
    error: type[errors.KafkaError],
    text: str,
) -> None:
    name = {BROKER: "1", TOPIC: topic}.get(kind, "some")
    code, told = _answer(asker, kind, name, change)
    assert code == error.code
    assert (told or "").startswith(text)


@pytest.mark.parametrize(
    "change",
    [
        ("remote.storage.enable", SET, "false"),
        ("remote.log.copy.disable", SET, "true"),
        ("remote.log.delete.on.disable", SET, "true"),
        ("local.retention.ms", SET, "-2"),
    ],
    ids=str,
)
def test_tiering_that_is_off_may_be_said(
    asker: Asker, topic: str, change: tuple[str, int, str]
) -> None:
    assert _change(asker, TOPIC, topic, change) == 0


@pytest.mark.parametrize("name", ["1", ""], ids=["one broker", "every broker"])
def test_throttles_are_described_only_where_they_are_set(asker: Asker, name: str) -> None:
    key = "leader.replication.throttled.rate"
    assert not _throttles(asker, None)
    assert not _throttles(asker, [key])
    assert _change(asker, BROKER, name, (key, SET, "1000")) == 0
    try:
        assert _throttles(asker, None) == _throttles(asker, [key]) == {key: "1000"}
    finally:
        assert _change(asker, BROKER, name, (key, DELETE, None)) == 0


def _throttles(asker: Asker, keys: list[str] | None) -> dict[str, str | None]:
    found = _describe(asker, BROKER, "1", keys).configs
    return {
        each.name: each.value
        for each in found
        if each.name.endswith("throttled.rate") or each.name.startswith("replica.alter.log.dirs.io")
    }


def test_client_metrics_have_every_key(asker: Asker) -> None:
    name = unused_name("metrics")
    assert _change(asker, CLIENT_METRICS, name, ("interval.ms", SET, "60000")) == 0
    found = _describe(asker, CLIENT_METRICS, name, synonyms=True).configs
    assert {each.name: (each.value, each.config_source) for each in found} == {
        "interval.ms": ("60000", CLIENT_METRICS_SOURCE),
        "match": ("", DEFAULT_SOURCE),
        "metrics": ("", DEFAULT_SOURCE),
    }
    synonyms = {each.name: [(one.name, one.value) for one in each.synonyms] for each in found}
    assert synonyms == {"interval.ms": [("interval.ms", "60000")], "match": [], "metrics": []}
    assert _change(asker, CLIENT_METRICS, name, ("interval.ms", DELETE, None)) == 0


# -- AlterConfigs


@pytest.mark.parametrize("version", versions(33))
def test_replacing_resets_what_is_not_named(
    asker: Asker, penstock_cluster: Cluster, version: int
) -> None:
    topic = new_topic(penstock_cluster, config={"segment.ms": "70000", "retention.ms": "1"})
    assert _replace(asker, TOPIC, topic, ("retention.ms", "5000"), version=version) == 0
    assert _value(asker, topic, "retention.ms") == "5000"
    assert _value(asker, topic, "segment.ms") == WEEK_MS


@pytest.mark.parametrize("version", versions(33))
def test_replacing_can_be_validated_only(asker: Asker, topic: str, version: int) -> None:
    setting = ("retention.ms", "5000")
    assert _replace(asker, TOPIC, topic, setting, version=version, validate_only=True) == 0
    assert _value(asker, topic, "retention.ms") == WEEK_MS


@pytest.mark.parametrize("version", versions(33))
@pytest.mark.parametrize(
    ("setting", "error"),
    [
        (("zork", "1"), errors.InvalidConfig),
        (("retention.ms", "zork"), errors.InvalidConfig),
        (("retention.ms", None), errors.InvalidRequest),
    ],
    ids=str,
)
def test_a_replacement_that_cannot_be_is_refused(
    asker: Asker,
    topic: str,
    version: int,
    setting: tuple[str, str | None],
    error: type[errors.KafkaError],
) -> None:
    assert _replace(asker, TOPIC, topic, setting, version=version) == error.code


@pytest.mark.parametrize("version", versions(33))
def test_settings_of_unknown_topics_cannot_be_replaced(asker: Asker, version: int) -> None:
    code = _replace(asker, TOPIC, "no-such-topic", ("retention.ms", "1"), version=version)
    assert code == errors.UnknownTopicOrPartition.code


# -- ListConfigResources


def _resources(asker: Asker, *kinds: int, version: int = 1) -> k74.ListConfigResourcesResponse:
    answer = asker.ask(k74.ListConfigResourcesRequest(resource_types=list(kinds)), version)
    assert isinstance(answer, k74.ListConfigResourcesResponse)
    return answer


def test_v0_lists_client_metrics_only(asker: Asker, topic: str) -> None:
    assert topic
    listed = _resources(asker, version=0).config_resources
    assert {each.resource_type for each in listed} <= {CLIENT_METRICS}


def test_client_metrics_are_listed_once_they_are_set(asker: Asker) -> None:
    name = unused_name("metrics")
    assert _change(asker, CLIENT_METRICS, name, ("interval.ms", SET, "60000")) == 0
    listed = [each.resource_name for each in _resources(asker, version=0).config_resources]
    assert _change(asker, CLIENT_METRICS, name, ("interval.ms", DELETE, None)) == 0
    after = [each.resource_name for each in _resources(asker, version=0).config_resources]
    assert name in listed
    assert name not in after


@pytest.mark.parametrize(
    ("kinds", "found"),
    [((), {TOPIC, BROKER, BROKER_LOGGER}), ((TOPIC,), {TOPIC}), ((BROKER,), {BROKER})],
    ids=str,
)
def test_v1_lists_the_kinds_that_are_asked_for(
    asker: Asker, topic: str, kinds: tuple[int, ...], found: set[int]
) -> None:
    listed = _resources(asker, *kinds).config_resources
    assert {each.resource_type for each in listed} == found
    assert (topic in {each.resource_name for each in listed}) == (TOPIC in found)


@pytest.mark.parametrize("kind", [0, 99])
def test_a_kind_that_has_no_settings_is_unsupported(asker: Asker, kind: int) -> None:
    answer = _resources(asker, kind)
    assert (answer.error_code, answer.config_resources) == (errors.UnsupportedVersion.code, [])
