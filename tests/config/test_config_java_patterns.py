"""Which texts count as regular expressions of Java."""

import pytest

from penstock.config.java_patterns import is_pattern


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.*",
        r"\p{Alpha}+",
        r"\Qa(b\E",
        "(?<name>a)",
        "a(?i)b",
        "(?<=a|bc)d",
        "[a-z&&[^b]]",
        "a++",
    ],
)
def test_a_pattern_of_java_is_one(text: str) -> None:
    assert is_pattern(text)


@pytest.mark.parametrize("text", ["(", "a)", "[a", "*a", "a{2,1}", "\\"])
def test_a_broken_pattern_is_none(text: str) -> None:
    assert not is_pattern(text)
