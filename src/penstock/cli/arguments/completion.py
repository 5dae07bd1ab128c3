"""Completions for a shell: topics and groups of the cluster, profiles, configuration keys.

The line, the environment and the profile choose the cluster. A completion takes at most
COMPLETE_MS; an error completes nothing and prints nothing.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from penstock.cli.connection.access import Access, resolve
from penstock.cli.profile.profiles import profiles_path, read_profiles
from penstock.cli.terminal.output import Options

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

COMPLETE_MS = 1_000
NAMES_MAX = 1_000


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    """Return topics; internal ones only if the name begins with an underscore."""
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
        return _starting_with(incomplete, read_profiles(profiles_path()).by_name)
    return []


def complete_key(context: typer.Context, incomplete: str) -> list[str]:
    """Return keys of the resource on the line (topic, group or broker), or all keys."""
    return _starting_with(incomplete, _keys(context))


def complete_setting(context: typer.Context, incomplete: str) -> list[str]:
    """Return keys as complete_key does, with `=` behind."""
    return _starting_with(incomplete, (f"{key}=" for key in _keys(context)))


def complete_topic_key(incomplete: str) -> list[str]:
    from penstock.config.table import TOPIC_KEYS

    return _starting_with(incomplete, TOPIC_KEYS)


def complete_topic_setting(incomplete: str) -> list[str]:
    from penstock.config.table import TOPIC_KEYS

    return _starting_with(incomplete, (f"{key}=" for key in TOPIC_KEYS))


def complete_broker_setting(incomplete: str) -> list[str]:
    from penstock.config.table import BROKER_KEYS

    return _starting_with(incomplete, (f"{key}=" for key in BROKER_KEYS))


def complete_client_setting(incomplete: str) -> list[str]:
    from penstock.client.settings.table import PASSING, ROWS, Client

    return _starting_with(
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
        from penstock.cli.connection.access import connect

        with connect(_with_short_timeouts(_access(context))) as admin:
            return _starting_with(incomplete, ask(admin))
    return []


def _starting_with(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})[:NAMES_MAX]


def _access(context: typer.Context) -> Access:
    """Return the access of an incomplete line: its options are in the contexts only."""
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


def _with_short_timeouts(access: Access) -> Access:
    limits = dict.fromkeys(("request.timeout.ms", "default.api.timeout.ms"), str(COMPLETE_MS))
    return replace(access, settings={**access.settings, **limits})
