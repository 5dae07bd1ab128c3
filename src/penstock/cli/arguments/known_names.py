"""Names of topics and groups: patterns over them, and the known name nearest to a wrong one."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.cli.terminal.output import WrongUsage
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
        raise WrongUsage(f"{option} {pattern!r} is no regular expression: {error}") from None
    return [each for each in names if compiled.fullmatch(each)]


def no_match(pattern: str, names: str) -> str:
    """Return the sentence for a pattern that matches nothing; a shell's pattern gets a hint."""
    answered = f"{pattern!r} matches none of {names}; it is a regular expression over whole names"
    if re.fullmatch(r"[\w.-]+", pattern):
        return f"{answered}, e.g. '{pattern}.*' for those that begin with it"
    meant = re.sub(r"(?<![.\])])\*", ".*", pattern)
    return answered if meant == pattern else f"{answered}: is '{meant}' meant?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`; None if none is similar."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), n=1, cutoff=LIKENESS)
    return found[0] if found else None


def nearest_topic(admin: "Admin", topic: str) -> str | None:
    """Return the most similar topic; None if none is similar or the list fails."""
    with suppress(KafkaError):
        return nearest(topic, (each.name for each in admin.list_topics()))
    return None


def nearest_group(admin: "Admin", group: str) -> str | None:
    """Return the most similar group; None if none is similar or the list fails."""
    with suppress(KafkaError):
        return nearest(group, (each.group_id for each in admin.groups.list_all()))
    return None


def missing_topic(admin: "Admin", topic: str) -> str:
    """Return the message for a missing topic, with the most similar one."""
    return _sentence("topic", topic, nearest_topic(admin, topic))


def missing_group(admin: "Admin", group: str) -> str:
    """Return the message for a missing group, with the most similar one."""
    return _sentence("group", group, nearest_group(admin, group))


def _sentence(kind: str, name: str, near: str | None) -> str:
    if near is not None:
        return f"there is no {kind} {name}; did you mean {near}?"
    return f"there is no {kind} {name}; `penstock {kind} list` shows which there are"


def similar_to_missing_group(admin: "Admin", group: str) -> str | None:
    """Return the most similar group if `group` does not exist; else None."""
    with suppress(KafkaError):
        known = [each.group_id for each in admin.groups.list_all()]
        return None if group in known else nearest(group, known)
    return None


def explained_topics(admin: "Admin", failed: Mapping[str, KafkaError]) -> dict[str, KafkaError]:
    """Return the errors; those about missing topics name the most similar topic."""
    return {
        name: UnknownTopicOrPartition(missing_topic(admin, name.split(" ")[0]))
        if isinstance(error, UnknownTopicOrPartition)
        else error
        for name, error in failed.items()
    }


def explained_groups(admin: "Admin", failed: Mapping[str, KafkaError]) -> dict[str, KafkaError]:
    """Return the errors; those about missing groups name the most similar group."""
    return {
        name: GroupIdNotFound(missing_group(admin, name))
        if isinstance(error, GroupIdNotFound)
        else error
        for name, error in failed.items()
    }
