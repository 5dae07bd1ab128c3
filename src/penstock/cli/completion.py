"""What a shell is told could follow: names of topics and groups, asked of the cluster; profiles, as
their file has them; keys of configuration, which need nobody.

The cluster is the one that the line, the environment and the profile say. Whoever presses Tab waits
at most COMPLETE_MS, and hears nothing of what goes wrong.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli.access import Access, resolve
from penstock.cli.output import Options
from penstock.cli.profiles import profiles_path, read_profiles

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

COMPLETE_MS = 1_000
NAMES_MAX = 1_000


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    """The cluster's own topics only if somebody begins to write their name."""
    return _names(
        context,
        incomplete,
        lambda admin: (
            topic.name
            for topic in admin.list_topics()
            if incomplete.startswith("_") or not topic.internal
        ),
    )


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    return _names(
        context, incomplete, lambda admin: (each.group_id for each in admin.groups.list_all())
    )


def complete_profile(incomplete: str) -> list[str]:
    with suppress(Exception):
        return _beginning(incomplete, read_profiles(profiles_path()).by_name)
    return []


def complete_key(context: typer.Context, incomplete: str) -> list[str]:
    """Return keys of what the line names: a topic, a group, a broker; of all of them if nothing."""
    return _beginning(incomplete, _keys(context))


def complete_setting(context: typer.Context, incomplete: str) -> list[str]:
    """As complete_key, with the sign before the value."""
    return _beginning(incomplete, (f"{key}=" for key in _keys(context)))


def complete_topic_key(incomplete: str) -> list[str]:
    from penstock.config.table import TOPIC_KEYS

    return _beginning(incomplete, TOPIC_KEYS)


def complete_topic_setting(incomplete: str) -> list[str]:
    from penstock.config.table import TOPIC_KEYS

    return _beginning(incomplete, (f"{key}=" for key in TOPIC_KEYS))


def complete_broker_setting(incomplete: str) -> list[str]:
    from penstock.config.table import BROKER_KEYS

    return _beginning(incomplete, (f"{key}=" for key in BROKER_KEYS))


def complete_client_setting(incomplete: str) -> list[str]:
    from penstock.client.settings.table import PASSING, ROWS, Client

    return _beginning(
        incomplete, (f"{key}=" for each in Client for key in (*ROWS[each], *PASSING[each]))
    )


def _keys(context: typer.Context) -> Iterable[str]:
    from penstock.config.table import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS

    given = context.params
    if given.get("topic"):
        return TOPIC_KEYS
    if given.get("group"):
        return GROUP_KEYS
    if given.get("all_brokers") or given.get("broker") is not None:
        return BROKER_KEYS
    return (*BROKER_KEYS, *TOPIC_KEYS, *GROUP_KEYS)


def _names(
    context: typer.Context, incomplete: str, ask: Callable[["Admin"], Iterable[str]]
) -> list[str]:
    with suppress(Exception):
        from penstock.cli.admin import connect

        with connect(_hasty(_access(context))) as admin:
            return _beginning(incomplete, ask(admin))
    return []


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})[:NAMES_MAX]


def _access(context: typer.Context) -> Access:
    """Options are not looked at while a line is completed: what was said is in the contexts."""
    options = Options()
    for each in _outermost_first(context):
        said = each.params
        options = options.followed_by(
            Options(
                said.get("bootstrap"),
                None,
                said.get("profile"),
                said.get("namespace"),
                tuple(said.get("settings") or ()),
            )
        )
    return resolve(options, read_profiles(profiles_path()).chosen(options.profile), os.environ)


def _outermost_first(context: Any) -> list[Any]:
    found = [context]
    while found[0].parent is not None:
        found.insert(0, found[0].parent)
    return found


def _hasty(access: Access) -> Access:
    limits = dict.fromkeys(("request.timeout.ms", "default.api.timeout.ms"), str(COMPLETE_MS))
    return replace(access, settings={**access.settings, **limits})
