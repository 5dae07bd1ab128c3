"""The right form of a `config set` whose words are not all KEY=VALUE."""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.terminal.output import WrongUsage

if TYPE_CHECKING:
    from penstock.config.key import Key

OWNERS = ("topic", "group", "broker")


def check_pairs(words: Sequence[str], owner: str | None) -> None:
    """Raise WrongUsage with the right form if a word is no KEY=VALUE.

    `owner` is the option that the user gave: `--topic orders`. Otherwise a leading
    `topic NAME`, `group NAME` or `broker ID` names the owner, or a single word names a topic.
    """
    if all("=" in word for word in words):
        return
    kind, rest = "topic", list(words)
    leading = owner is None and len(words) > 1 and words[0] in OWNERS and "=" not in words[1]
    if leading:
        kind, rest = words[0], list(words[2:])
    joined = _join_pairs(rest)
    pairs = [shlex.quote(each) for each in joined if "=" in each]
    names = [words[1]] if leading else [each for each in joined if "=" not in each]
    shown = names[0] if names else next(each for each in rest if "=" not in each)
    problem = f"set {shown}: must be KEY=VALUE"
    if owner is not None and names:
        raise WrongUsage(problem)
    right = f"`penstock config set {' '.join(pairs) or 'KEY=VALUE'}"
    if owner is not None:
        raise WrongUsage(f"{problem}: {right} {owner}`")
    name = shlex.quote(names[0]) if names else "NAME"
    raise WrongUsage(f"{problem}. An option names the {kind}: {right} --{kind} {name}`")


def _join_pairs(words: Sequence[str]) -> list[str]:
    """Return the words; a key and the value behind it become one KEY=VALUE."""
    joined: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        key = _known_key(word)
        if key is not None and waiting and "=" not in waiting[0]:
            value = waiting.pop(0)
            word = f"{word}={'VALUE' if key.sensitive else value}"
        joined.append(word)
    return joined


def _known_key(name: str) -> "Key | None":
    from penstock.config.table import GROUP_KEYS, TOPIC_KEYS, find_broker_key

    return TOPIC_KEYS.get(name) or GROUP_KEYS.get(name) or find_broker_key(name)
