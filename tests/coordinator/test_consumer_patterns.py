"""Regular expressions over names of topics: what they match, what is none, what they cost."""

import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.patterns import NamePattern
from penstock.coordinator.patterns.automaton import (
    NODES_MAX,
    REMEMBERED_MAX,
)
from penstock.coordinator.patterns.syntax import LENGTH_MAX, NESTING_MAX, REPEAT_MAX
from penstock.errors import InvalidRegularExpression

# Each verdict is that of RE2/J, which Apache Kafka uses.
MATCHES = [
    ("orders", "orders"),
    ("orders-.*", "orders-eu"),
    ("orders-(eu|us)", "orders-us"),
    (r"orders\.v\d+", "orders.v12"),
    (r"[a-c]+", "abcabc"),
    (r"[^a-c]+", "xyz"),
    (r"[]a]", "a"),
    (r"[a-]+", "a-"),
    (r"[\w.]+", "a_b.c"),
    (r"[[:alpha:]]+", "abcXYZ"),
    (r"[[:^digit:]]+", "ab-._"),
    (r"\pL\p{Lu}\PN\p{^N}", "aB-."),
    (r"\p{Latin}+\p{Common}", "abc9"),
    (r"(?i)ORDERS", "orders"),
    (r"(?i:ord)ers", "ORDers"),
    (r"(?i)[k]\x{017f}", "KS"),
    (r"(?P<name>a)(?<other>b)", "ab"),
    (r"a{2,3}", "aaa"),
    (r"a{2,}?b??", "aaaa"),
    (r"a{,2}|b", "b"),
    (r"^orders$", "orders"),
    (r"\Aorders\z", "orders"),
    (r"\borders\b-\beu\b", "orders-eu"),
    (r"a\Bb", "ab"),
    (r"\Qa.b\E.", "a.bc"),
    (r"\x61\x{62}\143", "abc"),
    (r"(a|)(|b)", "a"),
    (r"\_\-", "_-"),
]
DIFFERS = [
    ("orders", "orders2"),
    ("orders", "my-orders"),
    (r"orders\.eu", "orders-eu"),
    (r"[^a-c]+", "a"),
    (r"a^b", "ab"),
    (r"a$b", "ab"),
    (r"\s+", "a"),
    (r"\bord\bers", "orders"),
    (r"(?i)a(?-i)b", "AB"),
    (r"a{2}", "aaa"),
    (r"é", "e"),
    (r"\p{Greek}", "a"),
    (r"[[:blank:]]", "a"),
    (r"{,2}", "a"),
]
INVALID = [
    "*", "a**", "a*+", "a{2}{3}", "a{2,1}", "a{1001}", "(a", "a)", "[a", "[z-a]", "[a-\\d]",
    "[[:foo:]]", "\\", "\\1", "\\8", "\\q", "\\Z", "\\C", "\\E", "\\x", "\\x{}", "\\xg0",
    "\\p{Nope}", "\\p{L", "(?=a)", "(?!a)", "(?<=a)", "(?P=n)", "(?P<n>a)(?P<n>b)", "(?a)",
    "(?i", "(?i-)", "(|*)", "\\x{110000}",
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "name"), MATCHES)
def test_it_matches(pattern: str, name: str) -> None:
    assert NamePattern(pattern).matches(name)


@pytest.mark.parametrize(("pattern", "name"), DIFFERS)
def test_it_does_not_match(pattern: str, name: str) -> None:
    assert not NamePattern(pattern).matches(name)


@pytest.mark.parametrize("pattern", INVALID)
def test_it_is_no_regular_expression(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        NamePattern(pattern)


def test_a_refusal_says_what_is_wrong_and_where() -> None:
    with pytest.raises(InvalidRegularExpression, match="missing closing bracket at position 4"):
        NamePattern("ab[c")


literals = st.sampled_from([*string.ascii_lowercase[:4], "A", "1", "_", "-", r"\."])
classes = st.sampled_from([".", r"\d", r"\w", r"\W", "[a-c]", "[^ab]", "[A-Z_]", r"[\d-]"])
places = st.sampled_from(["^", "$", r"\b", r"\B"])
atoms = st.one_of(literals, classes, places)
counts = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "+?"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, counts).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        inner.map(lambda each: f"(?i:{each})"),
    )


patterns = st.recursive(atoms, _larger, max_leaves=8)
names = st.text(alphabet="abcdABC12._-", min_size=1, max_size=8)


@given(patterns, names)
def test_it_agrees_with_pythons_own_on_what_both_know(pattern: str, name: str) -> None:
    # A dollar matches before a final newline there, which no name has; the rest is the same.
    expected = re.fullmatch(pattern, name, re.ASCII) is not None
    assert NamePattern(pattern).matches(name) == expected


@given(patterns, st.lists(names, min_size=1, max_size=20))
def test_what_is_remembered_changes_no_answer(pattern: str, many: list[str]) -> None:
    asked_often = NamePattern(pattern)
    first = [asked_often.matches(name) for name in many]
    assert [asked_often.matches(name) for name in many] == first
    assert [NamePattern(pattern).matches(name) for name in many] == first


@given(st.text(alphabet="ab[]()*+?{}|\\^$.-,012dwbQEpLi:P<>=!", max_size=20))
def test_any_text_is_an_expression_or_is_refused(text: str) -> None:
    try:
        NamePattern(text).matches("abc")
    except InvalidRegularExpression:
        pass


# Limits


def test_its_length_is_bounded() -> None:
    NamePattern("a|" * 100)
    with pytest.raises(InvalidRegularExpression, match=str(LENGTH_MAX)):
        NamePattern("a" * (LENGTH_MAX + 1))


def test_its_nesting_is_bounded() -> None:
    NamePattern("(" * NESTING_MAX + "a" + ")" * NESTING_MAX)
    with pytest.raises(InvalidRegularExpression, match=str(NESTING_MAX)):
        NamePattern("(" * (NESTING_MAX + 1) + "a" + ")" * (NESTING_MAX + 1))


@pytest.mark.parametrize(
    "bomb", ["(((a{30}){30}){30})", "(a?){999}", "((((){999}){999}){999}ab){999}"]
)
def test_its_size_is_bounded_however_short_it_is_written(bomb: str) -> None:
    with pytest.raises(InvalidRegularExpression, match=str(NODES_MAX)):
        NamePattern(bomb)


def test_nothing_repeated_often_is_still_nothing() -> None:
    assert NamePattern("(((){999}){999}){999}a").matches("a")


def test_what_makes_others_backtrack_without_end_takes_one_step_for_each_character() -> None:
    pattern = NamePattern("(a*)*(a*)*(a|aa)+b")
    assert not pattern.matches("a" * 249)
    assert pattern.effort <= 4 * 249  # a step and the nodes it looks at


def test_what_it_remembers_is_bounded() -> None:
    # Two to the twelfth sets of nodes, were they all kept.
    pattern = NamePattern("[ab]*a[ab]{12}")
    for number in range(1 << 13):
        pattern.matches(f"{number:013b}".replace("0", "a").replace("1", "b"))
    assert len(pattern._states) <= REMEMBERED_MAX


def test_the_longest_counted_repetition_fits() -> None:
    pattern = NamePattern(f"a{{{REPEAT_MAX}}}")
    assert pattern.matches("a" * REPEAT_MAX)
    assert not pattern.matches("a" * (REPEAT_MAX - 1))


def test_the_guide_names_the_limits() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "groups-and-transactions.md"
    text = " ".join(guide.read_text().split())
    for said in (
        f"at most {LENGTH_MAX:,} characters",
        f"{NESTING_MAX} groups inside each other",
        f"counts up to {REPEAT_MAX:,}",
        f"{NODES_MAX:,} steps",
    ):
        assert said in text
