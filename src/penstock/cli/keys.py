"""Keys that a command names: those that do not exist, and those that do nothing yet."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.output import note
from penstock.errors import InvalidConfig, InvalidRequest, KafkaError

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


def unknown_keys(
    admin: "Admin", resource: "Resource", names: Sequence[str]
) -> dict[str, InvalidConfig]:
    """The keys that neither this release nor the server knows, each with its refusal.

    A server leaves unknown keys out when it describes them and lets them be removed; nobody who
    has mistyped one is helped by that.
    """
    from penstock.client.values import ResourceType
    from penstock.config.check import unknown_broker_key, unknown_group_key, unknown_topic_key

    strange = [name for name in names if _key(resource, name) is None]
    if not strange:
        return {}
    found = admin.describe_configs([resource], keys=strange)[resource]
    if isinstance(found, KafkaError):
        raise found
    told = {each.name for each in found}
    refusals = {
        ResourceType.TOPIC: unknown_topic_key,
        ResourceType.GROUP: unknown_group_key,
        ResourceType.BROKER: unknown_broker_key,
    }
    return {name: refusals[resource.type](name) for name in strange if name not in told}


def dynamic_sibling(name: str) -> tuple[str, int] | None:
    """Return the key that means the same as a read-only one and can change while brokers run, and
    the factor into its unit: log.retention.hours gives log.retention.ms, 3,600,000."""
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
    """Return the same error; of a key that cannot change, with the key that can."""
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
    """Tell, in a line each, which of these settings are kept and change nothing."""
    from penstock.config.key import Effect

    for name, text in settings.items():
        key = _key(resource, name)
        idle = None if key is None else key.idle_part(text)
        if key is not None and idle is not None:
            end = ": nothing here needs it" if key.effect is Effect.NEVER else " yet"
            note(f"note: {name}={idle} is kept but has no effect{end}")
