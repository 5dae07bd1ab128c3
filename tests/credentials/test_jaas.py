"""JAAS strings, as Java takes them apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.credentials.jaas import BadJaasConfig, parse_jaas

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    return parse_jaas(f"{MODULE} required {text};").options


def test_a_module_has_a_name_and_options() -> None:
    module = parse_jaas(f'{MODULE} required username="alice" password="secret";')
    assert module.name == MODULE
    assert module.short_name == "PlainLoginModule"
    assert module.options == {"username": "alice", "password": "secret"}


def test_the_options_are_not_printed() -> None:
    assert "secret" not in repr(parse_jaas(f'{MODULE} required password="secret";'))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('a="b c"', "b c"),
        ("a='b \"c\"'", 'b "c"'),
        ('a="b\\"c"', 'b"c'),
        ('a="b\\\\c"', "b\\c"),
        ('a="b\\tc\\n"', "b\tc\n"),
        ('a="\\101\\60"', "A0"),
        ('a="\\777"', "\x3f7"),
        ('a="\\q"', "q"),
        ('a="b;c=d"', "b;c=d"),
        ('a="b//c"', "b//c"),
        ("a=word", "word"),
        ("a=w-o_r$d.9", "w-o_r$d.9"),
        ('a = "b"', "b"),
        ('a="" ', ""),
        ('a="\u00fc\u20ac"', "\u00fc\u20ac"),
        ("a=\u00fcber", "\u00fcber"),
    ],
)
def test_a_value_is_what_java_makes_of_it(written: str, meant: str) -> None:
    assert options(written) == {"a": meant}


def test_comments_are_left_out() -> None:
    assert options('/* a="1" */ b="2" // c="3"\n d="4"') == {"b": "2", "d": "4"}


def test_a_slash_alone_begins_a_comment_as_in_java() -> None:
    assert options('a="1" / b="2"\n c="3"') == {"a": "1", "c": "3"}


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")))
def test_any_text_can_be_quoted(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    assert options(f'a="{quoted}"') == {"a": text}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        (";", "does not begin with the class"),
        (MODULE, "no control flag"),
        (f"{MODULE} maybe;", "no control flag"),
        (f"{MODULE} required", "semicolon"),
        (f"{MODULE} required a;", "no value to a"),
        (f"{MODULE} required a=;", "no value to a"),
        (f"{MODULE} required a=12;", "in quotes"),
        (f"{MODULE} required a=-1;", "in quotes"),
        (f"{MODULE} required; {MODULE} required;", "more than one"),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: str) -> None:
    with pytest.raises(BadJaasConfig, match=problem):
        parse_jaas(text)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        parse_jaas(text)
    except BadJaasConfig:
        pass
