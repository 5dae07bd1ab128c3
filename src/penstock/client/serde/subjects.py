"""Under which subject a registry keeps the schema of a topic's keys or values."""

from collections.abc import Callable
from typing import TypeAlias

from penstock.client.serde.protocols import SerdeRefused

# (topic, whether it is the key's, the schema's full name if it has one)
SubjectOf: TypeAlias = Callable[[str, bool, str | None], str]


def by_topic(topic: str, is_key: bool, name: str | None) -> str:  # noqa: ARG001
    return f"{topic}-{'key' if is_key else 'value'}"


def by_record(topic: str, is_key: bool, name: str | None) -> str:  # noqa: ARG001
    return _named(name)


def by_topic_and_record(topic: str, is_key: bool, name: str | None) -> str:  # noqa: ARG001
    return f"{topic}-{_named(name)}"


def _named(name: str | None) -> str:
    if name is None:
        raise ValueError("the subject is named after the schema, and the schema has no name")
    return name


_BY_CLASS: dict[str, SubjectOf] = {
    "TopicNameStrategy": by_topic,
    "RecordNameStrategy": by_record,
    "TopicRecordNameStrategy": by_topic_and_record,
}


def subject_naming(said: str) -> SubjectOf:
    """By the name of Confluent's class, with or without its package."""
    found = _BY_CLASS.get(said.strip().rpartition(".")[2])
    if found is None:
        raise SerdeRefused(
            f"{said} is no way to name subjects that is known here; use {', '.join(_BY_CLASS)}"
        )
    return found
