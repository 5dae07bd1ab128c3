"""DescribeConfigs and IncrementalAlterConfigs of groups, as Apache Kafka 4.3.1 answers them."""

from collections.abc import Iterator

import pytest
from api_asking import Asker, asking, unused_name, versions

from penstock import errors
from penstock.testing.cluster import Cluster
from penstock.wire.messages import k32_describe_configs as k32
from penstock.wire.messages import k44_incremental_alter_configs as k44

BROKER, GROUP = 4, 32
SET, DELETE, APPEND = 0, 1, 2
CLUSTER_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE, GROUP_SOURCE = 3, 4, 5, 8
BOOLEAN, STRING, INT = 1, 2, 3
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {
        "group.consumer.session.timeout.ms": "50000",
        "group.consumer.min.session.timeout.ms": "10000",
        "group.consumer.assignment.interval.ms": "2000",
    }
    with Cluster(settings) as running:
        yield running


@pytest.fixture
def asker(cluster: Cluster) -> Iterator[Asker]:
    with asking(cluster) as opened:
        yield opened


@pytest.fixture
def group() -> str:
    return unused_name()


def _describe(
    asker: Asker, group: str, keys: list[str] | None = None, version: int = 4
) -> dict[str, k32.DescribeConfigsResourceResult]:
    request = k32.DescribeConfigsRequest(
        resources=[
            k32.DescribeConfigsResource(
                resource_type=GROUP, resource_name=group, configuration_keys=keys
            )
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    [one] = asker.ask(request, version).results
    assert one.error_code == 0
    return {each.name: each for each in one.configs}


def _change(
    asker: Asker, kind: int, name: str, *changes: tuple[str, int, str | None], version: int = 1
) -> tuple[int, str | None]:
    configs = [
        k44.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    wanted = k44.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    [one] = asker.ask(k44.IncrementalAlterConfigsRequest(resources=[wanted]), version).responses
    return one.error_code, one.error_message


def _synonyms(entry: k32.DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


@pytest.mark.parametrize("version", versions(32))
def test_a_group_that_nobody_has_heard_of_has_every_key(asker: Asker, version: int) -> None:
    told = _describe(asker, "never-seen", version=version)
    assert len(told) == 17
    assert {
        name: (told[name].value, told[name].config_source) for name in (SESSION, HEARTBEAT)
    } == {
        SESSION: ("50000", STATIC_SOURCE),
        HEARTBEAT: ("5000", DEFAULT_SOURCE),
    }
    assert not any(each.read_only or each.is_sensitive for each in told.values())


def test_keys_have_types_and_documentation(asker: Asker) -> None:
    told = _describe(asker, "never-seen")
    assert told[SESSION].config_type == INT
    assert told["share.auto.offset.reset"].config_type == STRING
    assert told["share.renew.acknowledge.enable"].config_type == BOOLEAN
    assert all(each.documentation for each in told.values())
    idle = {n for n, each in told.items() if "without effect" in (each.documentation or "")}
    assert idle == {name for name in told if not name.startswith("consumer.")}


def test_an_unknown_key_is_left_out(asker: Asker) -> None:
    assert list(_describe(asker, "never-seen", ["zork", SESSION])) == [SESSION]


@pytest.mark.parametrize("version", versions(44))
def test_a_groups_own_value_is_set_and_deleted(asker: Asker, group: str, version: int) -> None:
    assert _change(asker, GROUP, group, (SESSION, SET, " 46000 "), version=version) == (0, None)
    after_set = _describe(asker, group)[SESSION]
    assert _change(asker, GROUP, group, (SESSION, DELETE, None), version=version) == (0, None)
    after_delete = _describe(asker, group)[SESSION]
    defaults = [
        ("group.consumer.session.timeout.ms", "50000", STATIC_SOURCE),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT_SOURCE),
    ]
    assert (after_set.value, after_set.config_source) == ("46000", GROUP_SOURCE)
    assert _synonyms(after_set) == [(SESSION, "46000", GROUP_SOURCE), *defaults]
    assert _synonyms(after_delete) == defaults


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((("nonsense", SET, "1"),), "Unknown group config name: nonsense"),
        (((SESSION, SET, "abc"),), "Not a number of type INT"),
        (((SESSION, SET, "9999"),), "group.consumer.min.session.timeout.ms"),
        (((SESSION, SET, "60001"),), "group.consumer.max.session.timeout.ms"),
        (((SESSION, SET, "10000"), (HEARTBEAT, SET, "10000")), "must be above"),
        (((SESSION, APPEND, "1"),), "not LIST"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(
    asker: Asker, group: str, change: tuple[tuple[str, int, str | None], ...], reason: str
) -> None:
    code, message = _change(asker, GROUP, group, *change)
    assert code == errors.InvalidConfig.code
    assert reason in (message or "")
    assert GROUP_SOURCE not in {each.config_source for each in _describe(asker, group).values()}


def test_a_name_that_nobody_knows_may_be_deleted(asker: Asker, group: str) -> None:
    assert _change(asker, GROUP, group, ("nonsense", DELETE, None)) == (0, None)


def test_a_default_for_all_brokers_reaches_the_groups(asker: Asker, group: str) -> None:
    key = f"group.{ASSIGNMENT}"
    assert _change(asker, BROKER, "", (key, SET, "3000")) == (0, None)
    during = _describe(asker, group)[ASSIGNMENT]
    assert _change(asker, BROKER, "", (key, DELETE, None)) == (0, None)
    assert (during.value, during.config_source) == ("3000", CLUSTER_SOURCE)
    assert _synonyms(during) == [
        (key, "3000", CLUSTER_SOURCE),
        (key, "2000", STATIC_SOURCE),
        (key, "1000", DEFAULT_SOURCE),
    ]


def test_a_default_for_all_brokers_keeps_to_the_limits_of_groups(asker: Asker) -> None:
    code, message = _change(asker, BROKER, "", (f"group.{ASSIGNMENT}", SET, "15001"))
    assert code == errors.InvalidRequest.code
    assert "group.consumer.max.assignment.interval.ms" in (message or "")
