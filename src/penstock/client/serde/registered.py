"""The id before a value: which schema it is written with, and what a registry calls it."""

from dataclasses import dataclass, replace

from penstock.client.serde.protocols import SerdeRefused
from penstock.client.serde.registry import Numbered, Schema, SchemaRegistry
from penstock.client.serde.subjects import SubjectOf, by_topic


@dataclass(frozen=True, slots=True)
class Registered:
    """How a serializer uses a registry."""

    registry: SchemaRegistry
    subject_of: SubjectOf = by_topic
    # A schema that the subject has not is given to it; else it has to be there.
    auto_register: bool = True
    # Written with the subject's newest schema, whatever the serializer was given.
    use_latest: bool = False

    def numbered(
        self, topic: str, is_key: bool, schema: Schema | None, name: str | None
    ) -> Numbered:
        """The schema to write with; without one of its own, the subject's newest."""
        subject = self.subject_of(topic, is_key, name)
        if schema is None or self.use_latest:
            return self.registry.latest(subject)
        find = self.registry.register if self.auto_register else self.registry.find
        return Numbered(find(subject, schema), schema)

    def unwaiting(self) -> "Registered":
        """The same for event loops: NotToldYet where this one would wait."""
        return replace(self, registry=self.registry.unwaiting())


def registered(
    registry: str | SchemaRegistry | None,
    *,
    subject_of: SubjectOf,
    auto_register: bool,
    use_latest: bool,
    has_schema: bool,
) -> Registered | None:
    """None without a registry: then the serializer needs a schema of its own."""
    if registry is None:
        if not has_schema:
            raise SerdeRefused("give a schema, or a registry (registry=...) that has it")
        return None
    if isinstance(registry, str):
        registry = SchemaRegistry(registry)
    return Registered(registry, subject_of, auto_register, use_latest)
