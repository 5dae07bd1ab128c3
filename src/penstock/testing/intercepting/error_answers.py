"""The error response of each API: one code for the whole request, or one per item.

Most responses have one error code, or entries that match those of the request one by one. The table
below lists the latter; where a version allows both, the first form in the table is used. The forms
are those of a Kafka broker when a request fails as a whole.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import KafkaError
from penstock.wire.apis import response_class
from penstock.wire.schema import Array, FieldSchema, Nested, schema_of

ERROR_CODE, ERROR_MESSAGE = "error_code", "error_message"
# Fields by which a response identifies the items of a request.
NAMES = frozenset(
    {
        "entity",
        "group_id",
        "index",
        "name",
        "partition",
        "partition_index",
        "producer_id",
        "resource_name",
        "resource_type",
        "topic",
        "topic_id",
    }
)


@dataclass(frozen=True, slots=True)
class Whole:
    """The response's own error code."""

    since: int = 0
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Each:
    """One entry in `answered` for each one in `asked`, which may be a path through lists, or
    several lists with a + between.

    Identifying fields are copied, under another name if `renamed` has one; an entry that is a plain
    value goes to the field `value`. `values` are the fields of an entry without a result. The error
    is in the entry itself, or in those of `inner`.
    """

    asked: str
    answered: str
    inner: "Each | None" = None
    value: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    error_code: str = ERROR_CODE
    values: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Single:
    """One entry for all, where a response has neither a code of its own nor matching entries."""

    answered: str


ErrorForm = Whole | Each | Single

_TOPICS_BY_INDEX = Each("topics", "topics", Each("partitions", "partitions"))
_TOPICS_BY_NUMBER = Each(
    "topics", "topics", Each("partition_indexes", "partitions", value="partition_index")
)
_NO_NODE: Mapping[str, object] = {"node_id": -1, "port": -1}

# By API key. All other APIs have one error code for the whole request.
ERROR_FORMS: Mapping[int, tuple[ErrorForm, ...]] = {
    0: (
        Each(
            "topic_data",
            "responses",
            Each("partition_data", "partition_responses", values={"base_offset": -1}),
        ),
    ),
    2: (_TOPICS_BY_INDEX,),
    8: (_TOPICS_BY_INDEX,),
    9: (
        Each("groups", "groups"),
        Whole(),
        Each(
            "topics",
            "topics",
            Each(
                "partition_indexes",
                "partitions",
                value="partition_index",
                values={"committed_offset": -1},
            ),
        ),
    ),
    10: (
        Each("coordinator_keys", "coordinators", value="key", values=_NO_NODE),
        Whole(0, _NO_NODE),
    ),
    11: (Whole(7, {"protocol_name": None}), Whole()),
    15: (Each("groups", "groups", value="group_id"),),
    19: (Each("topics", "topics"),),
    20: (Each("topics", "responses"), Each("topic_names", "responses", value="name")),
    21: (Each("topics", "topics", Each("partitions", "partitions", values={"low_watermark": -1})),),
    22: (Whole(0, {"producer_epoch": -1}),),
    23: (_TOPICS_BY_INDEX,),
    24: (
        Each(
            "v3_and_below_topics",
            "results_by_topic_v3_and_below",
            Each(
                "partitions",
                "results_by_partition",
                value="partition_index",
                error_code="partition_error_code",
            ),
        ),
        Whole(),
    ),
    27: (Each("markers", "markers", _TOPICS_BY_NUMBER),),
    28: (_TOPICS_BY_INDEX,),
    30: (Each("creations", "results"),),
    31: (Each("filters", "filter_results"),),
    32: (Each("resources", "results"),),
    33: (Each("resources", "responses"),),
    34: (
        Each(
            "dirs.topics",
            "results",
            Each("partitions", "partitions", value="partition_index"),
            renamed={"name": "topic_name"},
        ),
    ),
    35: (Whole(), Single("results")),
    37: (Each("topics", "results"),),
    42: (Each("groups_names", "results", value="group_id"),),
    43: (
        Whole(),
        Each(
            "topic_partitions",
            "replica_election_results",
            Each("partitions", "partition_result", value="partition_id"),
        ),
    ),
    44: (Each("resources", "responses"),),
    49: (Each("entries", "entries"),),
    51: (Each("deletions+upsertions", "results", renamed={"name": "user"}),),
    61: (_TOPICS_BY_NUMBER,),
    65: (Each("transactional_ids", "transaction_states", value="transactional_id"),),
    69: (Each("group_ids", "groups", value="group_id"),),
    75: (Each("topics", "topics"),),
    10_000: (_TOPICS_BY_NUMBER,),
}
_WHOLE = (Whole(),)


def error_answer(key: int, version: int, message: Any, error: KafkaError) -> Any:
    """Return the error response. A request without items gets a response without items."""
    cls = response_class(key)
    response = cls()
    for way in ERROR_FORMS.get(key, _WHOLE):
        match way:
            case Whole(since, values):
                if version >= since and _has(cls, ERROR_CODE, version):
                    _fail(response, ERROR_CODE, error, values)
                    return response
            case Each():
                if _has(cls, way.answered, version) and _has(type(message), way.asked, version):
                    setattr(response, way.answered, list(_entries(cls, way, message, error)))
                    return response
            case Single(answered):
                entry = _entry_class(cls, answered)()
                _fail(entry, ERROR_CODE, error, {})
                setattr(response, answered, [entry])
                return response
    raise AssertionError(f"API {key} v{version} has no place for an error")


def _entries(parent: type, way: Each, asked: Any, error: KafkaError) -> Iterator[Any]:
    cls = _entry_class(parent, way.answered)
    fields = {each.name for each in schema_of(cls).fields}
    for item in _items(asked, way.asked):
        entry = cls()
        if way.value:
            setattr(entry, way.value, item)
        else:
            for each in schema_of(type(item)).fields:
                name = way.renamed.get(each.name, each.name)
                if each.name in NAMES and name in fields:
                    setattr(entry, name, getattr(item, each.name))
        if way.inner is None:
            _fail(entry, way.error_code, error, way.values)
        else:
            setattr(entry, way.inner.answered, list(_entries(cls, way.inner, item, error)))
        yield entry


def _items(asked: Any, path: str) -> Iterator[Any]:
    first, _, others = path.partition("+")
    name, _, rest = first.partition(".")
    for item in getattr(asked, name) or ():
        if rest:
            yield from _items(item, rest)
        else:
            yield item
    if others:
        yield from _items(asked, others)


def _fail(entry: Any, code: str, error: KafkaError, values: Mapping[str, object]) -> None:
    for name, value in values.items():
        setattr(entry, name, value)
    setattr(entry, code, error.code)
    if hasattr(entry, ERROR_MESSAGE):
        entry.error_message = error.message


def _field(cls: type, name: str) -> FieldSchema | None:
    return next((each for each in schema_of(cls).fields if each.name == name), None)


def _has(cls: type, path: str, version: int) -> bool:
    found = _field(cls, path.partition("+")[0].partition(".")[0])
    return found is not None and version in found.versions


def _entry_class(parent: type, name: str) -> type:
    found = _field(parent, name)
    assert found is not None, f"{parent.__name__} has a field {name}"
    assert isinstance(found.kind, Array) and isinstance(found.kind.element, Nested), name
    return found.kind.element.cls
