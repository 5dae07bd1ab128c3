"""Dataclasses whose fields are keys of the broker: each field names its key once."""

from dataclasses import field, fields
from typing import Any, TypeVar

from penstock.config.broker import BrokerConfig
from penstock.config.table import BROKER_KEYS

T = TypeVar("T")


def configured(key: str) -> Any:
    """Return a field with the value of a key. Its default is the default of the key."""
    return field(default=BROKER_KEYS[key].default, metadata={"key": key})


def read_configured(cls: type[T], config: BrokerConfig, **others: object) -> T:
    """Return an instance with the values of a configuration; `others` are fields without a key."""
    keys = {each.name: each.metadata.get("key") for each in fields(cls)}  # type: ignore[arg-type]
    values = {name: config.get(key) for name, key in keys.items() if key is not None}
    return cls(**{**values, **others})
