"""Java's properties syntax, entry by entry and by chance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.properties import PropertiesError, PropertyEntry, parse_properties


def pairs(text: str) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in parse_properties(text)]


@pytest.mark.parametrize("line", ["a=b", "a:b", "a b", "a = b", "a : b", "  a\tb", "a\t=\tb"])
def test_separators_are_equals_colon_and_blanks(line: str) -> None:
    assert pairs(line) == [("a", "b")]


def test_only_the_first_separator_counts() -> None:
    assert pairs("a=b=c\nd:=e\nf  g:h") == [("a", "b=c"), ("d", "=e"), ("f", "g:h")]


def test_comments_and_blank_lines_are_skipped() -> None:
    assert pairs("# no\n! no\n\n   \t\n  # no\na=b # part of it") == [("a", "b # part of it")]


def test_a_backslash_at_the_end_continues_the_line_without_its_indent() -> None:
    assert pairs("a=b,\\\n    c,\\\n\td\ne=f") == [("a", "b,c,d"), ("e", "f")]


def test_an_even_number_of_backslashes_does_not_continue() -> None:
    assert pairs("a=b\\\\\nc=d") == [("a", "b\\"), ("c", "d")]


def test_a_comment_sign_after_a_continued_line_is_text() -> None:
    assert pairs("a=b\\\n#c") == [("a", "b#c")]


def test_the_line_of_an_entry_is_its_first() -> None:
    assert parse_properties("#\na=\\\n1\nb=2") == [
        PropertyEntry(2, "a", "1"),
        PropertyEntry(4, "b", "2"),
    ]


def test_escapes_are_undone_in_keys_and_values() -> None:
    assert pairs(r"a\ b\=\:=\t\n\q\u00e9") == [("a b=:", "\t\nqé")]


def test_two_escaped_halves_make_one_character() -> None:
    assert pairs(r"a=\ud83d\ude00") == [("a", "\U0001f600")]


def test_a_bad_unicode_escape_names_its_line() -> None:
    with pytest.raises(PropertiesError, match="line 2: "):
        parse_properties("a=b\nc=\\u12x4")


def test_all_line_ends_are_known() -> None:
    assert pairs("a=1\rb=2\r\nc=3\nd=4") == [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]


def test_a_key_alone_has_an_empty_value() -> None:
    assert pairs("a\nb=\nc:") == [("a", ""), ("b", ""), ("c", "")]


def escaped(text: str, *, key: bool) -> str:
    """As java.util.Properties.store writes it."""
    out: list[str] = []
    for at, char in enumerate(text):
        if char in "\\#!=:" or (char == " " and (key or at == 0)):
            out.append("\\" + char)
        elif char in "\t\n\r\f":
            out.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[char])
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be")
            out += [f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)]
    return "".join(out)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(texts, texts), max_size=8))
def test_what_java_would_store_is_read_back(entries: list[tuple[str, str]]) -> None:
    lines = [f"{escaped(k, key=True)}={escaped(v, key=False)}" for k, v in entries]
    assert pairs("\n".join(lines)) == entries


@given(st.text())
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        lines = [entry.line for entry in parse_properties(text)]
    except PropertiesError as problem:
        lines = [problem.line]
    assert all(line >= 1 for line in lines)
