"""Values as YAML: a reader gets the same value."""

import math
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from cli_running import run
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.terminal.output import Json
from penstock.cli.terminal.yaml_output import to_yaml

# Also what YAML 1.1 takes for something else than text.
TRICKY = ["yes", "No", "on", "OFF", "null", "~", "", " a", "a ", "1", "1e3", "0x1f", "012", "1_0",
          "2026-01-31", "12:30:45", "- a", "a: b", "a #b", "'a'", '"a"', "[a]", "{a}", "*a", "&a",
          "!a", "|", ">", "%a", "@a", "`a", "a\nb", "a\tb", "\x00", "\x85", "\u2028", "\ufeff",
          "\U0001f600", "\ud800", "=", "<<", ".inf", "Y", "n", "-", "?", ":", ",", "é",
          "a:b"]  # fmt: skip
texts = st.one_of(st.text(), st.sampled_from(TRICKY), st.characters(codec=None).map(str))
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_was_written_is_read_back(value: Any) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


@given(st.lists(values, min_size=1, max_size=3))
def test_documents_one_after_the_other_are_told_apart(several: list[Any]) -> None:
    text = "".join(f"---\n{to_yaml(each)}" for each in several)
    assert list(yaml.safe_load_all(text)) == several


def test_a_key_of_any_length_is_a_key() -> None:
    for length in (100, 500, 5_000):
        several: list[Json] = [1, [1, [2]], {"b": {"c": None}}, [], {}]
        for value in several:
            assert yaml.safe_load(to_yaml({"a" * length: value})) == {"a" * length: value}


def test_what_is_no_number_is_written_as_yaml_has_it() -> None:
    assert math.isnan(yaml.safe_load(to_yaml(math.nan)))
    assert yaml.safe_load(to_yaml([math.inf, -math.inf])) == [math.inf, -math.inf]


@pytest.mark.parametrize("text", ["1e3", "0o17", "y", "N", "yes", "2026-01-31"])
def test_a_text_that_yaml_1_1_or_1_2_takes_for_something_else_is_quoted(text: str) -> None:
    assert to_yaml([text])[2] in "\"'"


def test_a_value_that_comes_again_is_written_again() -> None:
    shared: list[Json] = [1]
    assert "&" not in to_yaml([shared, shared])


def test_it_reads_like_yaml() -> None:
    value: Json = {
        "name": "orders",
        "partitions": [{"leader": 1, "replicas": [1, 2]}],
        "none": None,
    }
    assert to_yaml(value).splitlines() == [
        "name: orders",
        "partitions:",
        "  - leader: 1",
        "    replicas:",
        "      - 1",
        "      - 2",
        "none: null",
    ]


@pytest.mark.parametrize(
    "where", [["--format", "yaml", "version"], ["version", "--format", "yaml"]]
)
def test_a_command_prints_it(where: list[str]) -> None:
    ran = run(*where)
    assert ran.code == 0
    assert set(yaml.safe_load(ran.out)) == {"penstock", "python", "librdkafka"}
