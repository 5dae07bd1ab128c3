"""The keys of serializers: Confluent's for a registry, and Java's for the encoding of strings."""

from collections.abc import Mapping

from penstock.client.serde.protocols import Properties

REGISTRY_PREFIX = "schema.registry."
# Keys that serializers read and that clients hand to them.
SERDE_KEYS: Mapping[str, str] = {
    "schema.registry.url": "The addresses of the schema registry",
    "schema.registry.timeout.ms": "How long one address of the registry is waited for; 10000",
    "basic.auth.credentials.source": "URL, USER_INFO or SASL_INHERIT",
    "basic.auth.user.info": "user:password for the registry",
    "bearer.auth.credentials.source": "STATIC_TOKEN",
    "bearer.auth.token": "A token for the registry",
    "auto.register.schemas": "Whether a new schema is given to the registry; true",
    "use.latest.version": "Whether values are written with their subject's newest schema; false",
    "key.subject.name.strategy": "How subjects of keys are named; TopicNameStrategy",
    "value.subject.name.strategy": "How subjects of values are named; TopicNameStrategy",
    "json.fail.invalid.schema": "Whether JSON is validated against its schema; false",
    "key.serializer.encoding": "The encoding of Java's StringSerializer for keys; UTF-8",
    "value.serializer.encoding": "The encoding of Java's StringSerializer for values; UTF-8",
    "serializer.encoding": "The encoding of Java's StringSerializer; UTF-8",
    "key.deserializer.encoding": "The encoding of Java's StringDeserializer for keys; UTF-8",
    "value.deserializer.encoding": "The encoding of Java's StringDeserializer for values; UTF-8",
    "deserializer.encoding": "The encoding of Java's StringDeserializer; UTF-8",
}


def text_of(properties: Properties, key: str) -> str | None:
    """Return a value, also under Confluent's longer name, such as
    schema.registry.basic.auth.user.info."""
    value = properties.get(key)
    if value is None:
        value = properties.get(f"{REGISTRY_PREFIX}{key}")
    return None if value is None else str(value)


def encoding_of(properties: Properties, noun: str, is_key: bool) -> str | None:
    """Return the encoding of Java's String serializers: the part's own key before the general
    one."""
    part = "key" if is_key else "value"
    return text_of(properties, f"{part}.{noun}.encoding") or text_of(properties, f"{noun}.encoding")
