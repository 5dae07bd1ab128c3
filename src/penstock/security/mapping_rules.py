"""`ssl.principal.mapping.rules`: from the name of a certificate to the name of a principal.

Rules are read and applied as Apache Kafka does: the first whose pattern is the whole name counts.
Patterns are Java's; those that Python reads otherwise are rejected.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

DEFAULT = "DEFAULT"
_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)
_REFERENCE = re.compile(r"\$([0-9]+)")
_DIGITS = frozenset("0123456789")
# Java's classes, unions and quotes, which Python reads as something else or not at all.
_JAVA_ONLY = re.compile(r"\\[pPQEGXRhHvVkK]|\[[^\]]*(?:&&|\[)")


class NoRuleFits(Exception):
    """No rule fits the name of a certificate."""


class MappingRule(NamedTuple):
    """One rule; without a pattern it keeps the name."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str  # L, U or nothing

    def apply(self, name: str) -> str | None:
        """Return the mapped name; None if the rule does not fit."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # Java replaces every match, also an empty one at the end.
        mapped = self.pattern.sub(lambda match: _expand(self.replacement, match), name)
        match self.case:
            case "L":
                return mapped.lower()
            case "U":
                return mapped.upper()
            case _:
                return mapped


class MappingRules:
    """The rules of one listener, in their order."""

    def __init__(self, rules: Sequence[MappingRule]) -> None:
        self._rules = tuple(rules)

    @classmethod
    def parse(cls, text: str) -> "MappingRules":
        """Parse the value of the key. Raise ValueError with the wrong rule."""
        found = [match.group(1) for match in _SPLITTER.finditer(text.strip())]
        return cls([rule for each in found if (rule := _parse_rule(each)) is not None])

    def apply(self, name: str) -> str:
        """Return the name of the principal. Raise NoRuleFits."""
        for rule in self._rules:
            mapped = rule.apply(name)
            if mapped is not None:
                return mapped
        raise NoRuleFits(f"no rule of ssl.principal.mapping.rules fits {name}")


def _parse_rule(text: str) -> MappingRule | None:
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        raise ValueError(f"Invalid rule: {text}")
    if match.group(1):
        return MappingRule(None, "", "")
    if match.group(2) is None:
        return None  # empty rules are ignored
    if _JAVA_ONLY.search(match.group(2)):
        raise ValueError(f"Invalid rule: {text}: its pattern is Java's alone")
    try:
        pattern = re.compile(match.group(2), re.ASCII)
    except re.error as problem:
        raise ValueError(f"Invalid rule: {text}: {problem}") from problem
    replacement = _escape_missing(match.group(3), pattern.groups)
    return MappingRule(pattern, replacement, match.group(4))


def _escape_missing(replacement: str, groups: int) -> str:
    """Return a replacement whose references to missing groups are text. Without any group all stay
    references, as in Kafka, and a name that comes to one is not mapped."""
    if not groups:
        return replacement
    escaped = replacement
    for match in _REFERENCE.finditer(replacement):
        number = int(match.group(1))
        if match.group(1).startswith("0"):
            continue
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            # Kafka takes the position in the text before earlier escapes, so later ones are off.
            at = match.start()
            escaped = escaped[:at] + "\\" + escaped[at:]
    return escaped


def _expand(replacement: str, match: re.Match[str]) -> str:
    """Return a replacement with its references filled in, as Java does. Of several digits as many
    count as make a group. Raise NoRuleFits for a reference to no group."""
    result: list[str] = []
    position, groups = 0, match.re.groups
    while position < len(replacement):
        each, following = replacement[position], replacement[position + 1 : position + 2]
        position += 1
        if each == "\\":
            result.append(following)
            position += 1
            continue
        if each != "$":
            result.append(each)
            continue
        if following not in _DIGITS or int(following) > groups:
            raise NoRuleFits(f"{replacement} refers to a group that its pattern does not have")
        number = int(following)
        position += 1
        while position < len(replacement) and replacement[position] in _DIGITS:
            longer = 10 * number + int(replacement[position])
            if longer > groups:
                break
            number = longer
            position += 1
        result.append(match.group(number) or "")
    return "".join(result)
