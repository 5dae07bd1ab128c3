"""A prefix keeps environments apart, and nothing gets lost between adding and taking it away."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.namespace import (
    CLUSTER_TOPICS,
    NAME_CHARACTERS_MAX,
    NO_NAMESPACE,
    BadNamespace,
    Namespace,
    namespace_of,
)
from penstock.errors import InvalidTopic

NAMES = st.text("abcXYZ019._-", min_size=1, max_size=40)
PREFIXES = st.text("abcXYZ019._-", max_size=10).filter(lambda text: not text.startswith("__"))


@given(PREFIXES, NAMES)
def test_a_name_comes_back_as_it_was_said(prefix: str, name: str) -> None:
    space = Namespace(prefix)
    assert space.strip(space.add(name)) == name


@given(PREFIXES, NAMES)
def test_what_is_shown_is_what_reaches_the_same_name(prefix: str, name: str) -> None:
    space = Namespace(prefix)
    shown = space.strip(name)
    assert shown is None or space.add(shown) == name


@given(NAMES)
def test_two_namespaces_never_meet(name: str) -> None:
    assert Namespace("staging.").strip(Namespace("dev.").add(name)) is None


@pytest.mark.parametrize("topic", sorted(CLUSTER_TOPICS))
def test_the_clusters_own_topics_keep_their_names(topic: str) -> None:
    space = Namespace("dev.")
    assert space.add(topic) == topic
    assert space.strip(topic) == topic


def test_a_topic_that_only_looks_like_the_clusters_is_hidden() -> None:
    assert Namespace("dev.").own(["dev.__consumer_offsets"]) == []


def test_the_prefix_alone_is_no_name() -> None:
    assert Namespace("dev.").strip("dev.") is None


def test_other_names_with_two_underscores_are_prefixed() -> None:
    assert Namespace("dev.").add("__mine") == "dev.__mine"


def test_without_a_namespace_nothing_changes() -> None:
    assert NO_NAMESPACE.add("a") == NO_NAMESPACE.strip("a") == "a"
    assert not NO_NAMESPACE


def test_a_list_is_cut_to_what_belongs_here_in_its_order() -> None:
    space = Namespace("dev.")
    assert space.own(["dev.b", "prod.x", "dev.a", "__consumer_offsets"]) == [
        "b",
        "a",
        "__consumer_offsets",
    ]


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [("dev/", "'/'"), ("a b", "' '"), ("__x", "begins with __"), ("x" * 249, "no room")],
)
def test_a_prefix_that_cannot_begin_a_name_is_refused(prefix: str, reason: str) -> None:
    with pytest.raises(BadNamespace, match=re.escape(reason)):
        Namespace(prefix)


def test_a_topic_that_gets_too_long_is_refused() -> None:
    space = Namespace("dev.")
    assert len(space.add_topic("x" * (NAME_CHARACTERS_MAX - 4))) == NAME_CHARACTERS_MAX
    with pytest.raises(InvalidTopic, match="250 characters with its namespace"):
        space.add_topic("x" * (NAME_CHARACTERS_MAX - 3))


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("^orders.*", ["dev.orders", "dev.orders-2"], ["orders", "devxorders", "prod.orders"]),
        ("^a|^b", ["dev.a", "dev.b"], ["b", "dev.c"]),
        ("a[|^]b|c", ["dev.a|b", "dev.a^b", "dev.c"], ["c"]),
        ("(x|^y)z", ["dev.xz"], ["dev.yz", "xz"]),
        ("[]|]q|w", ["dev.]q", "dev.|q", "dev.w"], ["w"]),
        (r"a\|b", ["dev.a|b"], ["dev.b"]),
    ],
)
def test_a_pattern_matches_inside_its_namespace_only(
    pattern: str, matching: list[str], other: list[str]
) -> None:
    compiled = re.compile(Namespace("dev.").add_pattern(pattern))
    assert [each for each in matching if not compiled.search(each)] == []
    assert [each for each in other if compiled.search(each)] == []


def test_a_pattern_without_a_namespace_stays_as_it_is() -> None:
    assert NO_NAMESPACE.add_pattern("^a|b") == "^a|b"


def test_clients_are_given_text_or_nothing() -> None:
    space = Namespace("dev.")
    assert namespace_of(space) is space
    assert namespace_of("dev.") == space
    assert namespace_of(None) is namespace_of("") is NO_NAMESPACE
