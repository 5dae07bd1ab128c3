"""Keys that a command names: those that do not exist, and those that do nothing yet."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.output import note
from penstock.errors import InvalidConfig, KafkaError

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin
    from penstock.client.values import Resource
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


def note_without_effect(resource: "Resource", settings: Mapping[str, str]) -> None:
    """Tell, in a line each, which of these settings are kept and change nothing."""
    from penstock.config.key import Effect

    for name, text in settings.items():
        key = _key(resource, name)
        idle = None if key is None else key.idle_part(text)
        if key is not None and idle is not None:
            end = ": nothing here needs it" if key.effect is Effect.NEVER else " yet"
            note(f"note: {name}={idle} is kept but has no effect{end}")
