"""Configurations as DescribeConfigs answers them."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from penstock.config.broker import BrokerConfig, Source, Synonym
from penstock.config.group import GroupConfig
from penstock.config.key import Key, Mode
from penstock.config.table import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, find_broker_key
from penstock.config.topic import TopicConfig
from penstock.config.values import to_text


class Described(NamedTuple):
    """One key of an answer; `source` and `type` are the protocol's numbers."""

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
    """The keys of one broker; all of them unless `names` says which."""
    for name in _broker_names(config) if names is None else names:
        key = find_broker_key(name)
        if key is not None:
            value = None if key.sensitive else config.written(name)
            yield _described(name, key, value, config.synonyms(name), key.mode)


def _broker_names(config: BrokerConfig) -> list[str]:
    said = set(config.set_names)
    names = {name for name, key in BROKER_KEYS.items() if not key.internal}
    return sorted(names | said)


def describe_cluster_default(
    config: BrokerConfig, names: Collection[str] | None = None
) -> Iterator[Described]:
    """What is set for all brokers at once, and nothing else."""
    for name in sorted(config.cluster_default):
        key = find_broker_key(name)
        if key is None or (names is not None and name not in names):
            continue
        value = None if key.sensitive else config.cluster_default[name]
        own = Synonym(name, value, Source.DYNAMIC_DEFAULT_BROKER)
        yield _described(name, key, value, (own,), key.mode)


def describe_topic(
    config: TopicConfig, names: Collection[str] | None = None
) -> Iterator[Described]:
    """The keys of one topic; all of them unless `names` says which."""
    for name in TOPIC_KEYS if names is None else names:
        key = TOPIC_KEYS.get(name)
        if key is None or (key.internal and name not in config.overrides):
            continue
        value = to_text(config.get(name))
        yield _described(name, key, value, config.synonyms(name), Mode.CLUSTER_WIDE)


def describe_group(
    config: GroupConfig, names: Collection[str] | None = None
) -> Iterator[Described]:
    """The keys of one group; all of them unless `names` says which."""
    for name in GROUP_KEYS if names is None else names:
        key = GROUP_KEYS.get(name)
        if key is not None:
            value = to_text(config.get(name))
            yield _described(name, key, value, config.synonyms(name), Mode.CLUSTER_WIDE)


def _described(
    name: str, key: Key, value: str | None, synonyms: tuple[Synonym, ...], mode: Mode
) -> Described:
    return Described(
        name,
        value,
        int(synonyms[0].source if synonyms else Source.DEFAULT),
        key.sensitive,
        mode is Mode.READ_ONLY,
        int(key.type),
        key.documentation,
        synonyms,
    )
