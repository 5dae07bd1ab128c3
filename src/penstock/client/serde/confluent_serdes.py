"""Serdes from Confluent's keys: schema.registry.url, basic.auth.*, auto.register.schemas, ..."""

from penstock.client.serde.avro_serde import AvroSerde, avro
from penstock.client.serde.json_schema_serde import JsonSchemaSerde, json_schema
from penstock.client.serde.keys import REGISTRY_PREFIX, text_of
from penstock.client.serde.protocols import Properties, SerdeRefused
from penstock.client.serde.registry import TIMEOUT_S_DEFAULT, SchemaRegistry
from penstock.client.serde.schema_ids import SubjectOf, by_topic, subject_naming
from penstock.credentials.jaas import parse_jaas
from penstock.credentials.tls import Tls

_SOURCES = ("URL", "USER_INFO", "SASL_INHERIT")


def registry_of(properties: Properties) -> SchemaRegistry:
    """Return the registry of these keys."""
    url = text_of(properties, "schema.registry.url")
    if not url:
        raise SerdeRefused("schema.registry.url is missing; it looks like http://127.0.0.1:8081")
    timeout = text_of(properties, "schema.registry.timeout.ms")
    if timeout is not None and not timeout.isdecimal():
        raise SerdeRefused(f"schema.registry.timeout.ms={timeout} is no whole number")
    user, password = _user(properties)
    tls = {
        key.removeprefix(REGISTRY_PREFIX): str(value)
        for key, value in properties.items()
        if key.startswith(f"{REGISTRY_PREFIX}ssl.")
    }
    return SchemaRegistry(
        url,
        user=user,
        password=password,
        token=_token(properties),
        tls=Tls.from_properties(tls) if tls else None,
        timeout_s=int(timeout) / 1000 if timeout else TIMEOUT_S_DEFAULT,
    )


def configured_avro(properties: Properties, is_key: bool) -> AvroSerde[object]:
    """Return a serde with the keys of Confluent's Avro serializers."""
    return avro(
        registry=registry_of(properties),
        subject_of=_naming(properties, is_key),
        auto_register=_truth(properties, "auto.register.schemas", True),
        use_latest=_truth(properties, "use.latest.version", False),
    )


def configured_json_schema(properties: Properties, is_key: bool) -> JsonSchemaSerde[object]:
    """Return a serde with the keys of Confluent's JSON Schema serializers."""
    return json_schema(
        registry=registry_of(properties),
        subject_of=_naming(properties, is_key),
        auto_register=_truth(properties, "auto.register.schemas", True),
        use_latest=_truth(properties, "use.latest.version", False),
        validate=_truth(properties, "json.fail.invalid.schema", False),
    )


def _naming(properties: Properties, is_key: bool) -> SubjectOf:
    said = text_of(properties, f"{'key' if is_key else 'value'}.subject.name.strategy")
    return by_topic if said is None else subject_naming(said)


def _user(properties: Properties) -> tuple[str | None, str | None]:
    source = text_of(properties, "basic.auth.credentials.source")
    info = text_of(properties, "basic.auth.user.info")
    if source is not None and source.upper() not in _SOURCES:
        raise SerdeRefused(
            f"basic.auth.credentials.source={source} is not one of {', '.join(_SOURCES)}"
        )
    if source is not None and source.upper() == "SASL_INHERIT":
        options = parse_jaas(text_of(properties, "sasl.jaas.config") or "").options
        return options.get("username"), options.get("password")
    if info is None:
        if source is not None and source.upper() == "USER_INFO":
            raise SerdeRefused("basic.auth.user.info is missing; it looks like user:password")
        return None, None
    user, colon, password = info.partition(":")
    if not colon:
        raise SerdeRefused("basic.auth.user.info has no colon; it looks like user:password")
    return user, password


def _token(properties: Properties) -> str | None:
    source = text_of(properties, "bearer.auth.credentials.source")
    token = text_of(properties, "bearer.auth.token")
    if source is not None and source.upper() != "STATIC_TOKEN":
        raise SerdeRefused(
            f"bearer.auth.credentials.source={source} is not offered; use STATIC_TOKEN and "
            "bearer.auth.token"
        )
    if source is not None and token is None:
        raise SerdeRefused("bearer.auth.token is missing")
    return token


def _truth(properties: Properties, key: str, default: bool) -> bool:
    text = text_of(properties, key)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise SerdeRefused(f"{key}={text} is neither true nor false")
    return text.lower() == "true"
