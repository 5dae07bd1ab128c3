"""PLAIN, the server's side (RFC 4616): users and passwords of a listener's JAAS entry."""

import hashlib
import hmac
from collections.abc import Mapping

from penstock.credentials.plain import PLAIN
from penstock.security.login.login import LoggedIn, LoginFailed

USER_OPTION = "user_"  # user_alice="secret"
NUL = "\0"


class PlainLogins:
    """The users of one listener. An unknown user takes as long as a wrong password."""

    name = PLAIN

    def __init__(self, options: Mapping[str, str]) -> None:
        """Take the users among the options of a login module. A user without a password cannot log
        in."""
        self._passwords = {
            option.removeprefix(USER_OPTION): _digest(password)
            for option, password in options.items()
            if option.startswith(USER_OPTION) and password
        }

    def __repr__(self) -> str:
        return f"PlainLogins(of {len(self._passwords)} users)"

    def begin(self, _nonce: str, /) -> "PlainLogin":
        return PlainLogin(self)

    def knows(self, name: str, /) -> bool:
        return name in self._passwords

    def proves(self, name: str, password: str) -> bool:
        """Return whether the password is the user's."""
        given = _digest(password)
        equal = hmac.compare_digest(self._passwords.get(name, bytes(len(given))), given)
        return equal and name in self._passwords


class PlainLogin:
    """One login: a single message."""

    def __init__(self, logins: PlainLogins) -> None:
        self.done: LoggedIn | None = None
        self._logins = logins

    def answer(self, message: bytes) -> bytes:
        if self.done is not None:
            raise LoginFailed("a message after the end of PLAIN")
        try:
            parts = message.decode().split(NUL)
        except UnicodeDecodeError:
            raise LoginFailed("a message of PLAIN that is not UTF-8") from None
        if len(parts) != 3:
            raise LoginFailed(f"a message of PLAIN with {len(parts)} parts instead of 3")
        authorization_id, name, password = parts
        if not self._logins.proves(name, password):
            raise LoginFailed("a wrong user or password")
        if authorization_id not in ("", name):
            raise LoginFailed("an authorization id that is not the user's name")
        self.done = LoggedIn(name)
        return b""


def _digest(password: str) -> bytes:
    """Return a digest: a comparison of digests tells nothing of a password's length."""
    return hashlib.sha256(password.encode()).digest()
