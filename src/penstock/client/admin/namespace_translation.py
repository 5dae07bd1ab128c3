"""The names of a namespace in requests and responses of the admin client.

Code above a connection uses names without the prefix. Requests get the prefix, responses lose it;
items of other namespaces are left out of responses. The tables name the fields that hold topics,
groups or transactional ids. acls.py translates ACLs, groups.py the bytes of classic members.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from penstock.client.namespace import Namespace
from penstock.wire import structures
from penstock.wire.messages import k02_list_offsets as k02
from penstock.wire.messages import k03_metadata as k03
from penstock.wire.messages import k08_offset_commit as k08
from penstock.wire.messages import k09_offset_fetch as k09
from penstock.wire.messages import k10_find_coordinator as k10
from penstock.wire.messages import k13_leave_group as k13
from penstock.wire.messages import k15_describe_groups as k15
from penstock.wire.messages import k16_list_groups as k16
from penstock.wire.messages import k19_create_topics as k19
from penstock.wire.messages import k20_delete_topics as k20
from penstock.wire.messages import k21_delete_records as k21
from penstock.wire.messages import k22_init_producer_id as k22
from penstock.wire.messages import k27_write_txn_markers as k27
from penstock.wire.messages import k32_describe_configs as k32
from penstock.wire.messages import k33_alter_configs as k33
from penstock.wire.messages import k34_alter_replica_log_dirs as k34
from penstock.wire.messages import k35_describe_log_dirs as k35
from penstock.wire.messages import k37_create_partitions as k37
from penstock.wire.messages import k42_delete_groups as k42
from penstock.wire.messages import k43_elect_leaders as k43
from penstock.wire.messages import k44_incremental_alter_configs as k44
from penstock.wire.messages import k45_alter_partition_reassignments as k45
from penstock.wire.messages import k46_list_partition_reassignments as k46
from penstock.wire.messages import k47_offset_delete as k47
from penstock.wire.messages import k61_describe_producers as k61
from penstock.wire.messages import k65_describe_transactions as k65
from penstock.wire.messages import k66_list_transactions as k66
from penstock.wire.messages import k69_consumer_group_describe as k69
from penstock.wire.messages import k74_list_config_resources as k74
from penstock.wire.messages import k75_describe_topic_partitions as k75
from penstock.wire.schema import Array, Nested, schema_of

M = TypeVar("M")

# The structures that hold names, and their fields; a field has one name or a list.
NAMES: Final[Mapping[type, tuple[str, ...]]] = {
    structures.TopicErrors: ("name",),
    structures.NamedTopicIdPartitions: ("topic_name",),
    k02.ListOffsetsTopic: ("name",),
    k02.ListOffsetsTopicResponse: ("name",),
    k03.MetadataRequestTopic: ("name",),
    k03.MetadataResponseTopic: ("name",),
    k08.OffsetCommitRequest: ("group_id",),
    k08.OffsetCommitRequestTopic: ("name",),
    k08.OffsetCommitResponseTopic: ("name",),
    k09.OffsetFetchRequest: ("group_id",),
    k09.OffsetFetchRequestTopic: ("name",),
    k09.OffsetFetchRequestTopics: ("name",),
    k09.OffsetFetchRequestGroup: ("group_id",),
    k09.OffsetFetchResponseTopic: ("name",),
    k09.OffsetFetchResponseTopics: ("name",),
    k09.OffsetFetchResponseGroup: ("group_id",),
    k10.FindCoordinatorRequest: ("key", "coordinator_keys"),
    k10.Coordinator: ("key",),
    k13.LeaveGroupRequest: ("group_id",),
    k15.DescribeGroupsRequest: ("groups",),
    k15.DescribedGroup: ("group_id",),
    k16.ListedGroup: ("group_id",),
    k19.CreatableTopic: ("name",),
    k19.CreatableTopicResult: ("name",),
    k20.DeleteTopicsRequest: ("topic_names",),
    k20.DeleteTopicState: ("name",),
    k20.DeletableTopicResult: ("name",),
    k21.DeleteRecordsTopic: ("name",),
    k21.DeleteRecordsTopicResult: ("name",),
    k22.InitProducerIdRequest: ("transactional_id",),
    k27.WritableTxnMarkerTopic: ("name",),
    k34.AlterReplicaLogDirTopic: ("name",),
    k34.AlterReplicaLogDirTopicResult: ("topic_name",),
    k35.DescribableLogDirTopic: ("topic",),
    k35.DescribeLogDirsTopic: ("name",),
    k37.CreatePartitionsTopic: ("name",),
    k37.CreatePartitionsTopicResult: ("name",),
    k42.DeleteGroupsRequest: ("groups_names",),
    k42.DeletableGroupResult: ("group_id",),
    k43.TopicPartitions: ("topic",),
    k43.ReplicaElectionResult: ("topic",),
    k45.ReassignableTopic: ("name",),
    k45.ReassignableTopicResponse: ("name",),
    k46.ListPartitionReassignmentsTopics: ("name",),
    k46.OngoingTopicReassignment: ("name",),
    k47.OffsetDeleteRequest: ("group_id",),
    k47.OffsetDeleteRequestTopic: ("name",),
    k61.TopicRequest: ("name",),
    k61.TopicResponse: ("name",),
    k65.DescribeTransactionsRequest: ("transactional_ids",),
    k65.TransactionState: ("transactional_id",),
    k65.TopicData: ("topic",),
    k66.TransactionState: ("transactional_id",),
    k69.ConsumerGroupDescribeRequest: ("group_ids",),
    k69.DescribedGroup: ("group_id",),
    k69.Member: ("subscribed_topic_names",),
    k75.TopicRequest: ("name",),
    k75.DescribeTopicPartitionsResponseTopic: ("name",),
    k75.Cursor: ("topic_name",),
}
# Fields with a regular expression over names.
PATTERNS: Final[Mapping[type, tuple[str, ...]]] = {
    k66.ListTransactionsRequest: ("transactional_id_pattern",),
}


class TypedName(NamedTuple):
    """A name whose type is in another field; only the types in `kinds` belong to a namespace."""

    type_field: str
    name_field: str
    kinds: frozenset[int]


_CONFIG_RESOURCE: Final = TypedName("resource_type", "resource_name", frozenset({2, 32}))
TYPED: Final[Mapping[type, TypedName]] = {
    structures.AlterConfigsResourceResponse: _CONFIG_RESOURCE,
    k32.DescribeConfigsResource: _CONFIG_RESOURCE,
    k32.DescribeConfigsResult: _CONFIG_RESOURCE,
    k33.AlterConfigsResource: _CONFIG_RESOURCE,
    k44.AlterConfigsResource: _CONFIG_RESOURCE,
    k74.ConfigResource: _CONFIG_RESOURCE,
}
TEXTS: Final = ("error_message",)


def into_namespace(namespace: Namespace, request: M) -> M:
    """Return a copy of the request with names of the cluster."""
    made: M = _Translation(namespace).into(request)
    return made


def out_of_namespace(namespace: Namespace, answer: M) -> M:
    """Return a copy of the response with names of this namespace alone."""
    made: M = _Translation(namespace).out_of(answer)
    return made


def strip_text(namespace: Namespace, text: str) -> str:
    """Return a server's text with the names of this namespace."""
    # Only a prefix at the start of a name is one.
    return re.sub(rf"(?<![\w.-]){re.escape(namespace.prefix)}(?=[\w.-])", "", text)


class _Foreign(Exception):
    """The structure belongs to another namespace."""


class _Translation:
    """The translation of messages with their nested structures."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def into(self, value: Any) -> Any:
        copy = self._copied(value, self.into)
        for field in _name_fields(value):
            setattr(copy, field, _each(getattr(value, field), self._namespace.add))
        for field in PATTERNS.get(type(value), ()):
            setattr(copy, field, _each(getattr(value, field), self._namespace.add_pattern))
        return copy

    def out_of(self, value: Any) -> Any:
        """Return a translated copy. Raise _Foreign if the structure belongs to another
        namespace."""
        copy = self._copied(value, self.out_of)
        for field in _name_fields(value):
            told = getattr(value, field)
            if isinstance(told, list):
                setattr(copy, field, self._namespace.own(told))
            elif told:
                setattr(copy, field, self._stripped(told))
        for field in TEXTS:
            if getattr(value, field, None):
                setattr(copy, field, strip_text(self._namespace, getattr(value, field)))
        return copy

    def _stripped(self, name: str) -> str:
        stripped = self._namespace.strip(name)
        if stripped is None:
            raise _Foreign
        return stripped

    def _copied(self, value: Any, nested: Any) -> Any:
        """Return a copy with translated structures, without those of other namespaces."""
        given: dict[str, Any] = {}
        for field in schema_of(type(value)).fields:
            held = getattr(value, field.name)
            match field.kind:
                case Array(element=Nested()) if held is not None:
                    held = [made for each in held for made in _maybe(nested, each)]
                case Nested() if held is not None:
                    held = next(iter(_maybe(nested, held)), None)
            given[field.name] = held
        return type(value)(**given)


def _name_fields(value: object) -> tuple[str, ...]:
    """Return the fields of a structure that hold names."""
    typed = TYPED.get(type(value))
    if typed is None:
        return NAMES.get(type(value), ())
    return (typed.name_field,) if getattr(value, typed.type_field) in typed.kinds else ()


def _maybe(translate: Any, value: Any) -> list[Any]:
    try:
        return [translate(value)]
    except _Foreign:
        return []


def _each(said: Any, change: Any) -> Any:
    """Change a name or a list of names; None and empty names stay."""
    if isinstance(said, list):
        return [change(each) for each in said]
    return change(said) if said else said
