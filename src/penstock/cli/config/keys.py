"""Configuration keys of a command: unknown keys, and keys without effect."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.arguments.known_names import missing_topic, similar_to_missing_group
from penstock.cli.connection.results import value_of
from penstock.cli.terminal.output import note
from penstock.errors import (
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.values import ConfigChange, Resource
    from penstock.config.key import Key


def _key(resource: "Resource", name: str) -> "Key | None":
    from penstock.client.values import ResourceType
    from penstock.config.table import GROUP_KEYS, TOPIC_KEYS, find_broker_key

    match resource.type:
        case ResourceType.TOPIC:
            return TOPIC_KEYS.get(name)
        case ResourceType.GROUP:
            return GROUP_KEYS.get(name)
        case ResourceType.BROKER:
            return find_broker_key(name)
        case _:
            return None


def explained_owner(admin: "Admin", resource: "Resource", error: KafkaError) -> KafkaError:
    """Return the error; one about a missing topic names the most similar topic."""
    if isinstance(error, UnknownTopicOrPartition):
        return UnknownTopicOrPartition(missing_topic(admin, resource.name))
    return error


def note_missing_group(admin: "Admin", resource: "Resource") -> None:
    """Print a similar group if the group of the settings does not exist.

    Kafka keeps the settings of a group that is yet to come, so this is no error.
    """
    from penstock.client.values import ResourceType

    if resource.type is not ResourceType.GROUP:
        return
    near = similar_to_missing_group(admin, resource.name)
    if near is not None:
        note(f"note: there is no group {resource.name} yet; did you mean {near}?")


def unknown_keys(
    admin: "Admin", resource: "Resource", names: Sequence[str]
) -> dict[str, InvalidConfig]:
    """Return an error for each key that neither this release nor the server knows.

    A server ignores unknown keys in DescribeConfigs and in deletions, which would hide a typo.
    """
    from penstock.client.values import ResourceType
    from penstock.config.check import unknown_broker_key, unknown_group_key, unknown_topic_key

    strange = [name for name in names if _key(resource, name) is None]
    if not strange:
        return {}
    found = value_of(admin.describe_configs([resource], keys=strange)[resource])
    answered = {each.name for each in found}
    rejections = {
        ResourceType.TOPIC: unknown_topic_key,
        ResourceType.GROUP: unknown_group_key,
        ResourceType.BROKER: unknown_broker_key,
    }
    return {name: rejections[resource.type](name) for name in strange if name not in answered}


def dynamic_sibling(name: str) -> tuple[str, int] | None:
    """Return the dynamic key with the meaning of a read-only one, and the factor into its unit:
    log.retention.hours gives log.retention.ms, 3,600,000."""
    from penstock.config.key import Mode
    from penstock.config.table import BROKER_KEYS

    key = BROKER_KEYS.get(name)
    if key is None or key.mode is not Mode.READ_ONLY:
        return None
    for each in BROKER_KEYS.values():
        if each.mode is not Mode.READ_ONLY and name in dict(each.synonyms):
            return each.name, dict(each.synonyms)[name]
    return None


def with_dynamic_sibling(
    error: KafkaError, resource: "Resource", changes: "Sequence[ConfigChange]"
) -> KafkaError:
    """Return the error; for a read-only key, with the dynamic key of the same meaning."""
    from penstock.client.values import ResourceType

    if resource.type is not ResourceType.BROKER or not isinstance(
        error, InvalidConfig | InvalidRequest
    ):
        return error
    for each in changes:
        found = dynamic_sibling(each.name)
        if found is None:
            continue
        sibling, factor = found
        text = each.value or ""
        value = str(int(text) * factor) if text.lstrip("-").isdecimal() else "VALUE"
        whose = f"--broker {resource.name}" if resource.name else "--all-brokers"
        return type(error)(
            f"{error.message}; {sibling} means the same and can change: "
            f"`penstock config set {sibling}={value} {whose}`"
        )
    return error


def note_without_effect(resource: "Resource", settings: Mapping[str, str]) -> None:
    """Print a line for each setting that is stored and has no effect."""
    from penstock.config.key import Effect

    for name, text in settings.items():
        key = _key(resource, name)
        if key is not None and key.effect is not Effect.NOW:
            end = ": nothing here needs it" if key.effect is Effect.NEVER else " yet"
            shown = "(hidden)" if key.sensitive else text
            note(f"note: {name}={shown} is kept but has no effect{end}")
