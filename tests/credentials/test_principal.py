"""Principals and callers: their text, and the addresses that they come from."""

import pytest

from penstock.credentials.principal import ANONYMOUS, Principal, anonymous_at, plain_address


def test_a_principal_reads_what_it_writes() -> None:
    assert Principal.parse(str(ANONYMOUS)) == ANONYMOUS


def test_a_name_may_contain_colons() -> None:
    assert Principal.parse("User:CN=a:b") == Principal("CN=a:b")


@pytest.mark.parametrize("text", ["", "alice", ":alice", "User:"])
def test_text_without_type_and_name_is_no_principal(text: str) -> None:
    with pytest.raises(ValueError, match="User:alice"):
        Principal.parse(text)


def test_a_caller_on_an_ipv6_socket_has_the_address_of_its_ipv4_peer() -> None:
    assert anonymous_at("::ffff:10.0.0.7").host == "10.0.0.7"


def test_an_address_has_one_text() -> None:
    assert plain_address("0:0:0:0:0:0:0:1") == "::1"
    assert plain_address("10.0.0.7") == "10.0.0.7"
    assert plain_address("a:name") == "a:name"
