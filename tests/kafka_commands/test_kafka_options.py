"""Options are read as Kafka's tools read them."""

import shlex
from importlib import import_module

import pytest
from hypothesis import given, strategies
from kafka_option_lists import OPTIONS
from kafka_running import ran

from penstock.cli.kafka.__main__ import NAMES
from penstock.cli.kafka.framework.examples import EXAMPLES
from penstock.cli.kafka.framework.options import GivenOptions, Option, OptionRejected, parse

KNOWN = (
    Option("topic", "", "String: topic"),
    Option("list", ""),
    Option("codec", "", "String", optional=True),
    Option("keys", "", "String", separator=","),
    Option("partitions", "", "Integer", "7"),
    Option("members", "", only_with=("list",)),
)


def parsed(*arguments: str) -> GivenOptions:
    return parse(KNOWN, arguments)


@pytest.mark.parametrize(
    "arguments", [("--topic", "a"), ("--topic=a",), ("-topic", "a"), ("--topic=", "a")]
)
def test_an_option_may_be_written_in_four_ways(arguments: tuple[str, ...]) -> None:
    assert parsed(*arguments).text("topic") == "a"


def test_an_argument_may_look_like_an_option() -> None:
    assert parsed("--topic", "--list").text("topic") == "--list"


def test_an_optional_argument_may_not_look_like_an_option() -> None:
    given = parsed("--codec", "--list")
    assert given.has("codec") and given.has("list") and given.text("codec") is None


def test_an_option_may_come_again() -> None:
    assert parsed("--topic", "a", "--topic", "b").texts("topic") == ["a", "b"]


def test_an_option_that_came_again_has_no_single_value() -> None:
    with pytest.raises(OptionRejected, match="Found multiple arguments for option topic"):
        parsed("--topic", "a", "--topic", "b").text("topic")


def test_values_are_parted_by_their_separator() -> None:
    assert parsed("--keys", "a,b").texts("keys") == ["a", "b"]


def test_a_default_is_no_option_that_was_said() -> None:
    given = parsed()
    assert given.number("partitions") == 7 and not given.has("partitions")


@pytest.mark.parametrize("text", ["x", "1.5", "2147483648", "\u0661"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(OptionRejected, match=f"Cannot parse argument '{text}' of option"):
        parsed("--partitions", text).number("partitions")


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(OptionRejected, match="topics is not a recognized option"):
        parsed("--topics", "a")


def test_no_option_is_abbreviated() -> None:
    with pytest.raises(OptionRejected, match="top is not a recognized option"):
        parsed("--top", "a")


def test_a_short_option_is_refused_by_its_letter() -> None:
    with pytest.raises(OptionRejected, match=r"^x is not a recognized option"):
        parsed("-xyz")


def test_an_argument_must_be_there() -> None:
    with pytest.raises(OptionRejected, match="Option topic requires an argument"):
        parsed("--topic")


def test_an_option_may_need_company() -> None:
    with pytest.raises(OptionRejected, match=r"Option\(s\) \[members\] are unavailable"):
        parsed("--members")


def test_nothing_is_an_option_after_two_dashes() -> None:
    assert parsed("--list", "--", "--topic", "a").rest == ["--topic", "a"]


@given(strategies.lists(strategies.text(min_size=1)))
def test_every_value_comes_back_as_it_was_given(values: list[str]) -> None:
    arguments = [word for value in values for word in ("--topic", value)]
    assert parsed(*arguments).texts("topic") == values


@pytest.mark.parametrize("name", OPTIONS)
def test_a_command_has_all_of_kafkas_options_and_no_others(name: str) -> None:
    module = import_module(f"penstock.cli.kafka.{name.replace('-', '_')}")
    assert {option.name for option in module.main.all_options} == OPTIONS[name]


@pytest.mark.parametrize("name", OPTIONS)
def test_help_lists_every_option_on_stderr(name: str) -> None:
    found = ran(name, "--help")
    assert found.code == 1 and not found.out
    assert all(f"--{option}" in found.err for option in OPTIONS[name])


@pytest.mark.parametrize("name", NAMES)
def test_help_ends_with_an_example(name: str) -> None:
    found = ran(name.removeprefix("kafka-"), "--help")
    example = EXAMPLES[name]
    assert (found.out or found.err).endswith(f"\nExample:\n  {example}\n")
    assert example.rpartition("| ")[2].startswith(f"{name} ")


@pytest.mark.parametrize("name", OPTIONS)
def test_the_example_of_a_command_can_be_typed(name: str) -> None:
    module = import_module(f"penstock.cli.kafka.{name.replace('-', '_')}")
    words = shlex.split(EXAMPLES[f"kafka-{name}"].rpartition("| ")[2])[1:]
    assert parse(module.main.all_options, words).rest == []


@pytest.mark.parametrize("name", OPTIONS)
def test_the_version_begins_with_kafkas(name: str) -> None:
    assert ran(name, "--version").out.startswith("4.3.1 ")


@pytest.mark.parametrize("name", OPTIONS)
def test_an_unknown_option_ends_a_command_with_1(name: str) -> None:
    found = ran(name, "--no-such-thing")
    assert found.code == 1
    assert found.complaint.endswith("no-such-thing is not a recognized option")


@pytest.mark.parametrize("name", OPTIONS)
def test_no_options_at_all_end_a_command_with_1(name: str) -> None:
    assert ran(name).code == 1


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("cluster", "cluster-id"),
        ("metadata-quorum", "describe"),
        ("storage", "format"),
        ("transactions", "list"),
        ("producer-perf-test", "--topic=x"),
    ],
)
def test_a_command_with_verbs_tells_what_is_missing(name: str, verb: str) -> None:
    found = ran(name, verb)
    assert found.code == 1
    assert "usage: " in found.err and "error: " in found.err
