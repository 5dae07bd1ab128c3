"""Names that no topic may have, in Kafka's words."""

import pytest

from penstock.controller.topic_names import check_topic_name
from penstock.errors import InvalidTopic

LONG = "x" * 250


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        (
            "a b",
            "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and "
            "'-'",
        ),
        (LONG, f"the length of '{LONG}' is longer than the max allowed length 249"),
    ],
)
def test_a_bad_name_is_refused_with_kafkas_sentence(name: str, reason: str) -> None:
    with pytest.raises(InvalidTopic) as refused:
        check_topic_name(name)
    assert refused.value.message == f"Topic name is invalid: {reason}"
