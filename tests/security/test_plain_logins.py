"""PLAIN on the server: who logs in, and that a failure tells nothing."""

import pytest

from penstock.security.login.login import LoggedIn, LoginFailed, failure_text
from penstock.security.login.plain import PlainLogins

OPTIONS = {
    "username": "node",
    "password": "nodes-secret",
    "user_alice": "alice-secret",
    "user_node": "nodes-secret",
    "user_empty": "",
}


def answered(message: bytes) -> LoggedIn | None:
    login = PlainLogins(OPTIONS).begin("")
    assert login.answer(message) == b""
    return login.done


@pytest.mark.parametrize("message", [b"\0alice\0alice-secret", b"alice\0alice\0alice-secret"])
def test_a_user_logs_in_with_the_password(message: bytes) -> None:
    assert answered(message) == LoggedIn("alice")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\0alice\0wrong", "a wrong user or password"),
        (b"\0bob\0alice-secret", "a wrong user or password"),
        (b"\0empty\0", "a wrong user or password"),
        (b"\0\0", "a wrong user or password"),
        (b"\0alice\0", "a wrong user or password"),
        (b"bob\0alice\0alice-secret", "authorization id"),
        (b"alice\0alice-secret", "2 parts"),
        (b"\0alice\0alice-secret\0", "4 parts"),
        (b"", "1 parts"),
        (b"\xff\0alice\0alice-secret", "not UTF-8"),
    ],
)
def test_all_others_fail(message: bytes, reason: str) -> None:
    with pytest.raises(LoginFailed, match=reason) as failure:
        answered(message)
    assert "alice" not in str(failure.value)


def test_a_login_is_one_message() -> None:
    login = PlainLogins(OPTIONS).begin("")
    login.answer(b"\0alice\0alice-secret")
    with pytest.raises(LoginFailed):
        login.answer(b"\0alice\0alice-secret")


def test_the_password_of_the_node_itself_is_no_user() -> None:
    assert not PlainLogins({"username": "node", "password": "secret"}).knows("node")


def test_no_repr_shows_a_password() -> None:
    assert "secret" not in repr(PlainLogins(OPTIONS)) + repr(vars(PlainLogins(OPTIONS)))


def test_the_text_of_a_failure_is_kafkas() -> None:
    assert failure_text("PLAIN") == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism PLAIN"
    )
