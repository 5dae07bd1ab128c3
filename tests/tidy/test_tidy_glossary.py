"""Words in the last column of docs/glossary.md are used neither in names nor in prose.

The numbers in ratchets.py only go down. A name counts once per file, a word of prose each time.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from ratchets import GLOSSARY_WORDS_LEFT, compare
from source_tree import IN_SOURCE, comments, docstrings, name_of, room_of, text_of, tree_of

NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
IN_NAMES = {
    *("place", "places", "body", "bodies", "refuse", "refused", "refuses", "refusal", "refusals"),
    *("strike", "strikes", "struck", "original", "originals", "copy", "copies", "way", "ways"),
    *("anew", "said", "told", "alarm", "alarms"),
}
PYTHONS_NAMES = {"copy", "deepcopy", "ConnectionRefusedError", "loop_body"}
# A copy of a list and work under way are plain English.
IN_PROSE = re.compile(
    r"\bin hand\b|\bparts? with\b|\banew\b|\bsaid\b|\btold\b|\balarms?\b|\bstr(?:ikes?|uck)\b"
    r"|\brefus(?:e[sd]?|als?|ing)\b|\boriginals?\b|\b(?:the|its|this|that|one) cop(?:y|ies)\b"
    r"|(?<!take )(?<!takes )(?<!in )\bplaces?\b"
    r"|(?<!under )(?<!on its )(?<!on the )\bways?\b"
    r"|(?<!loop )\bbod(?:y|ies)\b(?! of (?:a|the|its) (?:async )?(?:for )?loop)",
    re.IGNORECASE,
)


def names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each name of variables, arguments, attributes, functions and classes with its line."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Name(id=name)
                | ast.arg(arg=name)
                | ast.Attribute(attr=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield node.lineno, name


def is_avoided(name: str) -> bool:
    parts = [part.lower() for part in NAME_PART.findall(name)]
    in_hand = ("in", "hand") in pairwise(parts)
    return name not in PYTHONS_NAMES and (in_hand or not IN_NAMES.isdisjoint(parts))


def found_in(path: Path) -> Iterator[str]:
    lines: dict[str, int] = {}
    for line, name in names(tree_of(path)):
        if is_avoided(name):
            lines.setdefault(name, line)
    for name, line in lines.items():
        yield f"{name_of(path)}:{line}: {name}"
    for line, text in (*comments(text_of(path)), *docstrings(tree_of(path))):
        for word in IN_PROSE.findall(" ".join(text.split())):
            yield f"{name_of(path)}:{line}: {word!r} in prose"


def test_a_word_that_the_glossary_avoids_is_found() -> None:
    assert all(map(is_avoided, ("place", "_tell_anew", "StartRefused", "records_in_hand")))
    assert not any(map(is_avoided, ("replace", "always", "copy", "hand_over", "placement")))
    assert IN_PROSE.findall("The original stays, and the copy is refused anew.") == [
        "original",
        "the copy",
        "refused",
        "anew",
    ]
    plain = "A move is under way. The body of its loop, and each loop body, copies a list in place."
    assert IN_PROSE.findall(plain) == []


def test_one_word_stands_for_one_thing() -> None:
    found: dict[str, list[str]] = {}
    for path in IN_SOURCE:
        found.setdefault(room_of(path), []).extend(found_in(path))
    trouble = compare(found, GLOSSARY_WORDS_LEFT, "take the first column of docs/glossary.md")
    assert trouble == [], "\n".join(trouble)
