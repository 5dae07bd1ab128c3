"""The admin client in a namespace: it sees its own names, without their prefix, and no others."""

import pytest
from admin_facts import FACTS, Fact, new_topic, unused_name
from admin_server import AdminServer

from penstock import errors
from penstock.client.admin.blocking import Admin
from penstock.client.admin.cluster_values import LogDir
from penstock.client.admin.coordinator_values import GroupDescription, TransactionFilter
from penstock.client.admin.namespace_translation import (
    NAMES,
    PATTERNS,
    TYPED,
    into_namespace,
    out_of_namespace,
    strip_text,
)
from penstock.client.namespace import Namespace
from penstock.client.values import ConfigChange, NewTopic, Operation, Resource, ResourceType
from penstock.model import TopicPartition
from penstock.testing.cluster import Cluster
from penstock.wire.apis import APIS, OWN_FROM, request_class, response_class
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k43_elect_leaders as k43
from penstock.wire.schema import Array, Nested, Text, schema_of

DEV, STAGING = "dev.", "staging."
SPACE = Namespace(DEV)


@pytest.fixture
def both(penstock_cluster: Cluster) -> "tuple[Admin, Admin]":
    return (
        Admin(bootstrap=penstock_cluster.bootstrap, namespace=DEV),
        Admin(bootstrap=penstock_cluster.bootstrap, namespace=STAGING),
    )


# -- with a node


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_in_a_namespace_it_holds_too_that(
    penstock_cluster: Cluster, fact: Fact, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_namespace(bootstrap: str) -> Admin:
        return Admin(bootstrap=bootstrap, namespace=f"{unused_name('space')}.")

    monkeypatch.setitem(fact.__globals__, "Admin", in_namespace)
    fact(penstock_cluster.bootstrap)


def test_topics_of_others_are_hidden(both: tuple[Admin, Admin], penstock_cluster: Cluster) -> None:
    dev, staging = both
    with dev, staging, Admin(bootstrap=penstock_cluster.bootstrap) as plain:
        mine = new_topic(dev)
        theirs = new_topic(staging)
        seen = [topic.name for topic in dev.list_topics()]
        assert mine in seen and theirs not in seen
        assert not [name for name in seen if name.startswith((DEV, STAGING))]
        whole = [topic.name for topic in plain.list_topics()]
        assert {DEV + mine, STAGING + theirs} <= set(whole)
        missing = dev.describe_topics([theirs])[theirs]
        assert isinstance(missing, errors.UnknownTopicOrPartition)


def test_two_namespaces_use_the_same_name(both: tuple[Admin, Admin]) -> None:
    dev, staging = both
    name = unused_name("shared")
    with dev, staging:
        for admin in both:
            assert not isinstance(admin.create_topics([NewTopic(name, 1, 1)])[name], Exception)
        assert dev.delete_topics([name]) == {name: None}
        assert name in [topic.name for topic in staging.list_topics()]


def test_error_texts_have_the_name_that_was_said(both: tuple[Admin, Admin]) -> None:
    dev, _ = both
    with dev:
        name = new_topic(dev)
        twice = dev.create_topics([NewTopic(name, 1, 1)])[name]
        assert isinstance(twice, errors.TopicAlreadyExists)
        assert name in twice.message and DEV not in twice.message
        missing = dev.reassignments.alter({TopicPartition("gone", 0): [1]})
        [error] = missing.values()
        assert error is not None and "gone" in error.message and DEV not in error.message


def test_groups_and_transactions_of_others_are_hidden(both: tuple[Admin, Admin]) -> None:
    dev, staging = both
    with dev, staging:
        partition = TopicPartition(new_topic(dev), 0)
        group, name = unused_name("group"), unused_name("transaction")
        dev.groups.commit(group, {partition: 3})
        dev.transactions.fence([name])
        assert group in [each.group_id for each in dev.groups.list_all()]
        assert group not in [each.group_id for each in staging.groups.list_all()]
        assert list(dev.groups.offsets(group)) == [partition]
        assert staging.groups.offsets(group) == {}
        described = dev.groups.describe([group])[group]
        assert isinstance(described, GroupDescription) and described.group_id == group
        pattern = TransactionFilter(pattern=f"{name}|other")
        assert [each.transactional_id for each in dev.transactions.list_all(pattern)] == [name]
        assert staging.transactions.list_all(pattern) == []


def test_configurations_of_others_are_hidden(both: tuple[Admin, Admin]) -> None:
    dev, staging = both
    with dev, staging:
        topic = Resource(ResourceType.TOPIC, new_topic(dev))
        change = [ConfigChange("retention.ms", Operation.SET, "7000")]
        assert dev.alter_configs({topic: change}) == {topic: None}
        assert list(dev.describe_configs([topic])) == [topic]
        assert topic in dev.list_config_resources()
        assert topic not in staging.list_config_resources()
        brokers = Resource(ResourceType.BROKER, "")
        assert isinstance(dev.describe_configs([brokers])[brokers], list)


def test_directories_show_own_replicas(both: tuple[Admin, Admin]) -> None:
    dev, staging = both
    with dev, staging:
        mine, theirs = TopicPartition(new_topic(dev), 0), TopicPartition(new_topic(staging), 0)
        [(_, found)] = dev.log_dirs.describe().items()
        assert isinstance(found, dict)
        seen = [
            partition
            for directory in found.values()
            if isinstance(directory, LogDir)
            for partition in directory.replicas
        ]
        assert mine in seen and theirs not in seen


def test_the_clusters_own_topics_keep_their_names(both: tuple[Admin, Admin]) -> None:
    dev, _ = both
    with dev:
        dev.groups.commit(unused_name("group"), {TopicPartition(new_topic(dev), 0): 1})
        assert "__consumer_offsets" in [topic.name for topic in dev.list_topics()]


def test_a_group_without_a_name_has_no_namespace(both: tuple[Admin, Admin]) -> None:
    dev, _ = both
    with dev, pytest.raises(errors.InvalidGroupId):
        dev.groups.describe([""])


def test_an_election_of_all_names_only_own_partitions() -> None:
    answer = k43.ElectLeadersResponse()
    topics = ("dev.a", "staging.b", "c")
    with AdminServer({43: lambda _: answer}, topics=topics) as server:
        with Admin(bootstrap=server.bootstrap, namespace=DEV) as admin:
            admin.elect_leaders()
        [asked] = server.requests(43)
        assert [each.topic for each in asked.topic_partitions] == ["dev.a"]


# -- messages


def test_a_request_is_translated_and_stays_as_it_is() -> None:
    request = k19.CreateTopicsRequest(topics=[k19.CreatableTopic(name="orders")])
    made = into_namespace(SPACE, request)
    assert [each.name for each in made.topics] == ["dev.orders"]
    assert [each.name for each in request.topics] == ["orders"]


def test_an_answer_loses_the_prefix_and_what_belongs_to_others() -> None:
    answer = k03.MetadataResponse(
        topics=[
            k03.MetadataResponseTopic(name=name)
            for name in ("dev.a", "staging.a", "dev.", "a", "__consumer_offsets")
        ]
    )
    made = out_of_namespace(SPACE, answer)
    assert [each.name for each in made.topics] == ["a", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("Topic 'dev.orders' already exists.", "Topic 'orders' already exists."),
        ("dev.a-0 and dev.b-1", "a-0 and b-1"),
        ("see my.dev.orders", "see my.dev.orders"),
        ("ends with dev.", "ends with dev."),
        ("nothing", "nothing"),
    ],
)
def test_texts_lose_the_prefix_where_a_name_begins(text: str, stripped: str) -> None:
    assert strip_text(SPACE, text) == stripped


# Texts that are no names of topics, groups or transactional ids.
NO_NAMES = {
    "host", "rack", "cluster_id", "error_message", "value", "documentation", "configuration_keys",
    "metadata", "committed_metadata", "member_id", "group_instance_id", "instance_id", "rack_id",
    "client_id", "client_host", "reason", "protocol_type", "protocol_data", "protocol_name",
    "group_state", "group_type", "states_filter", "types_filter", "state_filters",
    "unknown_state_filters", "transaction_state", "assignor_name", "subscribed_topic_regex",
    "path", "log_dir",
}  # fmt: skip
# Names of configuration keys.
KEYS = {
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "DescribeConfigsSynonym",
    "DescribeConfigsResourceResult",
    "AlterableConfig",
}


# The admin client sends neither TxnOffsetCommit nor ShareGroupDescribe, which share structures.
NOT_SENT = {28, 77, *(key for key in APIS if key >= OWN_FROM)}


def _classes(cls: type) -> set[type]:
    """The structures of a message."""
    found = {cls}
    for field in schema_of(cls).fields:
        inner = field.kind.element if isinstance(field.kind, Array) else field.kind
        if isinstance(inner, Nested):
            found |= _classes(inner.cls)
    return found


def _translated(key: int) -> set[type]:
    """The structures of an API that hold names."""
    classes = _classes(request_class(key)) | _classes(response_class(key))
    return classes & {*NAMES, *PATTERNS, *TYPED}


@pytest.mark.parametrize("key", [key for key in APIS if key not in NOT_SENT and _translated(key)])
def test_every_text_of_a_translated_message_is_a_name_or_known_to_be_none(key: int) -> None:
    found = _texts(request_class(key)) | _texts(response_class(key))
    translated = {
        (kind.__name__, field)
        for kind in _translated(key)
        for field in (*NAMES.get(kind, ()), *PATTERNS.get(kind, ()))
    } | {(kind.__name__, TYPED[kind].name_field) for kind in _translated(key) if kind in TYPED}
    assert translated <= found, APIS[key].name
    left = {(kind, field) for kind, field in found - translated if field not in NO_NAMES}
    assert {(kind, field) for kind, field in left if kind not in KEYS} == set(), APIS[key].name


def _texts(cls: type) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for field in schema_of(cls).fields:
        kind = field.kind
        inner = kind.element if isinstance(kind, Array) else kind
        if isinstance(inner, Text):
            found.add((cls.__name__, field.name))
        elif isinstance(inner, Nested):
            found |= _texts(inner.cls)
    return found
