"""Configurations in the form of DescribeConfigs responses."""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from penstock.config.broker import BrokerConfig, ConfigSource, Synonym
from penstock.config.group import GroupConfig
from penstock.config.key import Key, Mode
from penstock.config.table import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    find_broker_key,
)
from penstock.config.topic import TopicConfig
from penstock.config.values import parse_known, to_text


class Described(NamedTuple):
    """One key of a response; `source` and `type` are the protocol's numbers."""

    name: str
    value: str | None
    source: int
    is_sensitive: bool
    read_only: bool
    type: int
    documentation: str
    synonyms: tuple[Synonym, ...]


def describe_broker(
    config: BrokerConfig, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the keys of one broker; all keys unless `names` restricts them."""
    said = set(config.set_names)
    for name in sorted(BROKER_KEYS.keys() | said) if names is None else names:
        key = find_broker_key(name)
        if key is not None and (name in said or not (key.internal or key.listed_if_set)):
            value = None if key.sensitive else config.written(name)
            yield _described(name, key, value, config.synonyms(name), key.mode)


def describe_cluster_default(
    config: BrokerConfig, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield only the dynamic settings of all brokers."""
    for name in sorted(config.cluster_default):
        key = find_broker_key(name)
        if key is None or (names is not None and name not in names):
            continue
        value = None if key.sensitive else config.cluster_default[name]
        own = Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER)
        yield _described(name, key, value, (own,), key.mode)


def describe_topic(
    config: TopicConfig, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the keys of one topic; all keys unless `names` restricts them."""
    for name in TOPIC_KEYS if names is None else names:
        key = TOPIC_KEYS.get(name)
        if key is None or (key.internal and name not in config.overrides):
            continue
        value = to_text(config.get(name))
        yield _described(name, key, value, config.synonyms(name), Mode.CLUSTER_WIDE)


def describe_group(
    config: GroupConfig, names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the keys of one group; all keys unless `names` restricts them."""
    for name in GROUP_KEYS if names is None else names:
        key = GROUP_KEYS.get(name)
        if key is not None:
            value = to_text(config.get(name))
            yield _described(name, key, value, config.synonyms(name), Mode.CLUSTER_WIDE)


def describe_client_metrics(
    texts: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[Described]:
    """Yield the keys of one subscription; all keys unless `names` restricts them."""
    values, _ = parse_known(texts, CLIENT_METRICS_KEYS)
    for name, key in CLIENT_METRICS_KEYS.items():
        if names is None or name in names:
            value = to_text(values.get(name, key.default))
            own = (Synonym(name, value, ConfigSource.CLIENT_METRICS),) if name in values else ()
            yield _described(name, key, value, own, Mode.CLUSTER_WIDE)


def _described(
    name: str, key: Key, value: str | None, synonyms: tuple[Synonym, ...], mode: Mode
) -> Described:
    return Described(
        name,
        value,
        int(synonyms[0].source if synonyms else ConfigSource.DEFAULT),
        key.sensitive,
        mode is Mode.READ_ONLY,
        int(key.type),
        key.documentation,
        synonyms,
    )
