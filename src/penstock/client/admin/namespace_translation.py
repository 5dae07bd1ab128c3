"""The names of a namespace in requests and responses of the admin client.

Code above a connection uses names without the prefix. Requests get the prefix, responses lose it;
items of other namespaces are left out of responses. The tables name the fields that hold topics,
groups or transactional ids. acls.py translates ACLs, groups.py the bytes of classic members.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from penstock.client.namespace import Namespace
from penstock.wire.schema import Array, Nested, schema_of

M = TypeVar("M")

# By API key: the structures that hold names, and their fields; a field has one name or a list.
NAMES: Final[Mapping[int, Mapping[str, tuple[str, ...]]]] = {
    2: {"ListOffsetsTopic": ("name",), "ListOffsetsTopicResponse": ("name",)},
    3: {"MetadataRequestTopic": ("name",), "MetadataResponseTopic": ("name",)},
    8: {
        "OffsetCommitRequest": ("group_id",),
        "OffsetCommitRequestTopic": ("name",),
        "OffsetCommitResponseTopic": ("name",),
    },
    9: {
        "OffsetFetchRequest": ("group_id",),
        "OffsetFetchRequestTopic": ("name",),
        "OffsetFetchRequestTopics": ("name",),
        "OffsetFetchRequestGroup": ("group_id",),
        "OffsetFetchResponseTopic": ("name",),
        "OffsetFetchResponseTopics": ("name",),
        "OffsetFetchResponseGroup": ("group_id",),
    },
    10: {"FindCoordinatorRequest": ("key", "coordinator_keys"), "Coordinator": ("key",)},
    13: {"LeaveGroupRequest": ("group_id",)},
    15: {"DescribeGroupsRequest": ("groups",), "DescribedGroup": ("group_id",)},
    16: {"ListedGroup": ("group_id",)},
    19: {"CreatableTopic": ("name",), "CreatableTopicResult": ("name",)},
    20: {
        "DeleteTopicsRequest": ("topic_names",),
        "DeleteTopicState": ("name",),
        "DeletableTopicResult": ("name",),
    },
    21: {"DeleteRecordsTopic": ("name",), "DeleteRecordsTopicResult": ("name",)},
    22: {"InitProducerIdRequest": ("transactional_id",)},
    27: {"WritableTxnMarkerTopic": ("name",), "TopicErrors": ("name",)},
    34: {"AlterReplicaLogDirTopic": ("name",), "AlterReplicaLogDirTopicResult": ("topic_name",)},
    35: {"DescribableLogDirTopic": ("topic",), "DescribeLogDirsTopic": ("name",)},
    37: {"CreatePartitionsTopic": ("name",), "CreatePartitionsTopicResult": ("name",)},
    42: {"DeleteGroupsRequest": ("groups_names",), "DeletableGroupResult": ("group_id",)},
    43: {"TopicPartitions": ("topic",), "ReplicaElectionResult": ("topic",)},
    45: {"ReassignableTopic": ("name",), "ReassignableTopicResponse": ("name",)},
    46: {"ListPartitionReassignmentsTopics": ("name",), "OngoingTopicReassignment": ("name",)},
    47: {
        "OffsetDeleteRequest": ("group_id",),
        "OffsetDeleteRequestTopic": ("name",),
        "TopicErrors": ("name",),
    },
    61: {"TopicRequest": ("name",), "TopicResponse": ("name",)},
    65: {
        "DescribeTransactionsRequest": ("transactional_ids",),
        "TransactionState": ("transactional_id",),
        "TopicData": ("topic",),
    },
    66: {"TransactionState": ("transactional_id",)},
    69: {
        "ConsumerGroupDescribeRequest": ("group_ids",),
        "DescribedGroup": ("group_id",),
        "Member": ("subscribed_topic_names",),
        "NamedTopicIdPartitions": ("topic_name",),
    },
    75: {
        "TopicRequest": ("name",),
        "DescribeTopicPartitionsResponseTopic": ("name",),
        "Cursor": ("topic_name",),
    },
}
# Fields with a regular expression over names.
PATTERNS: Final[Mapping[int, Mapping[str, tuple[str, ...]]]] = {
    66: {"ListTransactionsRequest": ("transactional_id_pattern",)}
}


class _Typed(NamedTuple):
    """A name whose type is in another field; only the types in `kinds` belong to a namespace."""

    type_field: str
    name_field: str
    kinds: frozenset[int]


_CONFIG_RESOURCE: Final = _Typed("resource_type", "resource_name", frozenset({2, 32}))
TYPED: Final[Mapping[int, Mapping[str, _Typed]]] = {
    32: {
        "DescribeConfigsResource": _CONFIG_RESOURCE,
        "DescribeConfigsResult": _CONFIG_RESOURCE,
    },
    33: {
        "AlterConfigsResource": _CONFIG_RESOURCE,
        "AlterConfigsResourceResponse": _CONFIG_RESOURCE,
    },
    44: {
        "AlterConfigsResource": _CONFIG_RESOURCE,
        "AlterConfigsResourceResponse": _CONFIG_RESOURCE,
    },
    74: {"ConfigResource": _CONFIG_RESOURCE},
}
TEXTS: Final = ("error_message",)


def into_namespace(namespace: Namespace, request: M) -> M:
    """Return a copy of the request with names of the cluster."""
    made: M = _Translation(namespace, type(request)).into(request)
    return made


def out_of_namespace(namespace: Namespace, answer: M) -> M:
    """Return a copy of the response with names of this namespace alone."""
    made: M = _Translation(namespace, type(answer)).out_of(answer)
    return made


def strip_text(namespace: Namespace, text: str) -> str:
    """Return a server's text with the names of this namespace."""
    # Only a prefix at the start of a name is one.
    return re.sub(rf"(?<![\w.-]){re.escape(namespace.prefix)}(?=[\w.-])", "", text)


class _Foreign(Exception):
    """The structure belongs to another namespace."""


class _Translation:
    """The translation of one message with its nested structures."""

    def __init__(self, namespace: Namespace, message: type) -> None:
        key = schema_of(message).key
        assert key is not None, "requests and answers have a key"
        self._namespace = namespace
        self._names = NAMES.get(key, {})
        self._patterns = PATTERNS.get(key, {})
        self._typed = TYPED.get(key, {})

    def into(self, value: Any) -> Any:
        kind = type(value)
        copy = self._copied(value, self.into)
        for field in self._name_fields(value):
            setattr(copy, field, _each(getattr(value, field), self._namespace.add))
        for field in self._patterns.get(kind.__name__, ()):
            setattr(copy, field, _each(getattr(value, field), self._namespace.add_pattern))
        return copy

    def out_of(self, value: Any) -> Any:
        """Return a translated copy. Raise _Foreign if the structure belongs to another
        namespace."""
        copy = self._copied(value, self.out_of)
        for field in self._name_fields(value):
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

    def _name_fields(self, value: Any) -> tuple[str, ...]:
        kind = type(value).__name__
        typed = self._typed.get(kind)
        if typed is not None:
            ours = getattr(value, typed.type_field) in typed.kinds
            return (typed.name_field,) if ours else ()
        return self._names.get(kind, ())

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
