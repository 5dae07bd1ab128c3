"""Which partition a name belongs to, as Java counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.partitions import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("orders", -1008770331),
        ("polygenelubricants", -(2**31)),
        ("\u00e9t\u00e9", 227742),
        ("\U0001f600", 1772899),
    ],
)
def test_names_have_the_number_that_java_gives_them(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed


def by_definition(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for at in range(0, len(units), 2):
        result = 31 * result + int.from_bytes(units[at : at + 2], "big")
    return (result + 2**31) % 2**32 - 2**31


@given(
    st.text(st.characters(max_codepoint=127)) | st.text(st.characters(exclude_categories=())),
    st.integers(1, 6000),
)
def test_names_of_any_length_and_script_are_hashed_by_definition(text: str, times: int) -> None:
    whole = text * (times // max(len(text), 1) if times > 50 else 1)
    assert java_hash(whole) == by_definition(whole)


def test_the_number_without_a_positive_twin_counts_as_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0
