"""Prose of docstrings and comments: nouns of the domain as subjects, a verb in front of a function.

The numbers in ratchets.py only go down: a room has exactly as many exceptions as they allow.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ratchets import PRONOUNS_LEFT, VERBLESS_DOCSTRINGS_LEFT, compare
from source_tree import IN_SOURCE, comments, docstrings, name_of, room_of, text_of, tree_of

SENTENCE_END = re.compile(r"(?<=[.!?:;])\s+")
PERSON = re.compile(
    r"\b(somebody|someone|nobody|no one|anybody|anyone|everybody|everyone|whoever|whomever|whatever"
    r"|himself|herself)\b",
    re.IGNORECASE,
)
SUBJECT = re.compile(r"(who|whom|what|it|he|whoever)\b", re.IGNORECASE)
NO_VERB = re.compile(
    r"`|(?:The|An?|Whether|Where|How|As|Like|All|Every|One|Those|Names|Members|From|Without"
    r"|Nothing|None|No|There|Done|Back|What|On|Out)\b"
)


def pronouns(prose: str) -> list[str]:
    """Return the sentences with a pronoun as subject, or with a person that has no name."""
    sentences = SENTENCE_END.split(" ".join(prose.split()))
    return [each for each in sentences if PERSON.search(each) or SUBJECT.match(each)]


def found_in(path: Path) -> list[str]:
    prose = (*comments(text_of(path)), *docstrings(tree_of(path)))
    return [f"{name_of(path)}:{line}: {each}" for line, text in prose for each in pronouns(text)]


def test_a_sentence_about_nobody_is_found() -> None:
    assert pronouns("Return the offset. It is\nthe last one. What is\nold goes.") == [
        "It is the last one.",
        "What is old goes.",
    ]
    assert pronouns("The log waits until somebody reads; items are whole.") == [
        "The log waits until somebody reads;"
    ]
    assert pronouns("Itemise the rest: whether a leader is there.") == []


def test_the_subject_of_a_sentence_is_a_noun_of_the_domain() -> None:
    found: dict[str, list[str]] = {}
    for path in IN_SOURCE:
        found.setdefault(room_of(path), []).extend(found_in(path))
    trouble = compare(found, PRONOUNS_LEFT, "rewrite the sentence")
    assert trouble == [], "\n".join(trouble)


def function_docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of functions and properties, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def test_a_docstring_without_a_verb_is_found() -> None:
    assert all(map(NO_VERB.match, ("The offset.", "Whether it is open.", "`offset` is the last.")))
    assert not any(map(NO_VERB.match, ("Return the offset.", "Append a batch.", "Allow a name.")))


def test_a_docstring_of_a_function_begins_with_a_verb() -> None:
    found: dict[str, list[str]] = {}
    for path in IN_SOURCE:
        found.setdefault(room_of(path), []).extend(
            f"{name_of(path)}:{line}: {text.splitlines()[0]}"
            for line, text in function_docstrings(tree_of(path))
            if NO_VERB.match(text)
        )
    trouble = compare(found, VERBLESS_DOCSTRINGS_LEFT, "begin the docstring with its verb")
    assert trouble == [], "\n".join(trouble)
