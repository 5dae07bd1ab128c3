"""Names of topics and groups: patterns over them, and the known name nearest to a wrong one."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.cli.output import CommandFailed, ExitCode
from penstock.errors import GroupIdNotFound, KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from penstock.client.admin.blocking import Admin

LIKENESS = 0.6
PATTERN_HELP = "A regular expression over whole names, e.g. 'orders-.*'."


def matching(pattern: str, names: Iterable[str], option: str) -> list[str]:
    """Return the names that match as a whole, in their order."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise CommandFailed(
            f"{option} {pattern!r} is no regular expression: {error}", ExitCode.USAGE
        ) from None
    return [each for each in names if compiled.fullmatch(each)]


def no_match(pattern: str, names: str) -> str:
    """Return the sentence for a pattern that matches nothing; a shell's pattern gets a hint."""
    told = f"{pattern!r} matches none of {names}; it is a regular expression over whole names"
    if re.fullmatch(r"[\w.-]+", pattern):
        return f"{told}, e.g. '{pattern}.*' for those that begin with it"
    meant = re.sub(r"(?<![.\])])\*", ".*", pattern)
    return told if meant == pattern else f"{told}: is '{meant}' meant?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like `name`; None if none does."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1, cutoff=LIKENESS)
    return found[0] if found else None


def nearest_topic(admin: "Admin", topic: str) -> str | None:
    """Return the topic that may be meant; None if none looks like it, or none are listed."""
    with suppress(KafkaError):
        return nearest(topic, (each.name for each in admin.list_topics()))
    return None


def nearest_group(admin: "Admin", group: str) -> str | None:
    """Return the group that may be meant; None if none looks like it, or none are listed."""
    with suppress(KafkaError):
        return nearest(group, (each.group_id for each in admin.groups.list_all()))
    return None


def missing_topic(admin: "Admin", topic: str) -> str:
    """Return the sentence about a topic that is not there, with the one that may be meant."""
    return _sentence("topic", topic, nearest_topic(admin, topic))


def missing_group(admin: "Admin", group: str) -> str:
    """Return the sentence about a group that is not there, with the one that may be meant."""
    return _sentence("group", group, nearest_group(admin, group))


def _sentence(kind: str, name: str, near: str | None) -> str:
    if near is not None:
        return f"there is no {kind} {name}; did you mean {near}?"
    return f"there is no {kind} {name}; `penstock {kind} list` shows which there are"


def explained_topics(admin: "Admin", failed: Mapping[str, KafkaError]) -> dict[str, KafkaError]:
    """Return the same errors; one about a missing topic names the topic that may be meant."""
    return {
        name: UnknownTopicOrPartition(missing_topic(admin, name.split(" ")[0]))
        if isinstance(error, UnknownTopicOrPartition)
        else error
        for name, error in failed.items()
    }


def explained_groups(admin: "Admin", failed: Mapping[str, KafkaError]) -> dict[str, KafkaError]:
    """Return the same errors; one about a missing group names the group that may be meant."""
    return {
        name: GroupIdNotFound(missing_group(admin, name))
        if isinstance(error, GroupIdNotFound)
        else error
        for name, error in failed.items()
    }
