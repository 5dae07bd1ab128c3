"""SCRAM, the server's side (RFC 5802, RFC 7677), over the credentials of the metadata.

With a secret that all nodes share, an unknown user gets a salt, always the same, and fails at the
second message like a wrong password. Without one the login fails at the first message, as in Kafka.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

from penstock.credentials.scram import (
    HASHES,
    ITERATIONS_MIN,
    SALT_BYTES,
    BadScramMessage,
    ScramKeys,
    decode_base64,
    encode_base64,
    scram_fields,
    xor,
)
from penstock.security.login.login import LoggedIn, LoginFailed

BY_TOKEN = "tokenauth"  # an extension of Kafka: the name is the id of a delegation token

_FIRST = re.compile(
    r"(?P<header>n,(?:a=(?P<authorization_id>[^,]*))?,)"
    r"(?P<bare>n=(?P<name>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^,]+)*))"
)
_FINAL = re.compile(
    r"(?P<without_proof>c=(?P<binding>[^,]+),r=(?P<nonce>[^,]+)(?:,[A-Za-z]+=[^,]+)*)"
    r",p=(?P<proof>[^,]+)"
)


class ScramSecret(NamedTuple):
    """The stored credential of a user; a token has an owner and an end."""

    salt: bytes
    iterations: int
    keys: ScramKeys
    owner: str | None = None
    ends_wall_ms: int | None = None

    def __repr__(self) -> str:
        return f"ScramSecret(of {self.iterations} iterations)"


# The present credential of a name; None for an unknown one.
FindSecret = Callable[[str], ScramSecret | None]


class ScramLogins:
    """One mechanism of SCRAM on a listener."""

    def __init__(
        self,
        name: str,
        find: FindSecret,
        find_token: FindSecret,
        shared_secret: bytes | None = None,
    ) -> None:
        self.name = name
        self.find = find
        self.find_token = find_token
        self._shared_secret = shared_secret

    def begin(self, nonce: str, /) -> "ScramLogin":
        return ScramLogin(self, nonce)

    def knows(self, name: str, /) -> bool:
        return self.find(name) is not None

    def made_up(self, name: str) -> ScramSecret | None:
        """Return the credential of an unknown user, which no password fits; None without a secret
        that all nodes share."""
        if self._shared_secret is None:
            return None
        salt, stored_key, server_key = (
            hmac.digest(self._shared_secret, f"{part} {self.name} {name}".encode(), "sha512")
            for part in ("salt", "stored key", "server key")
        )
        size = hashlib.new(HASHES[self.name]).digest_size
        keys = ScramKeys(stored_key[:size], server_key[:size])
        return ScramSecret(salt[:SALT_BYTES], ITERATIONS_MIN, keys)


class _Challenge(NamedTuple):
    """The state between the two messages of a client."""

    name: str
    by_token: bool
    secret: ScramSecret
    header: str
    nonce: str
    signed: str  # the first messages of both sides


class ScramLogin:
    """One login: two messages."""

    def __init__(self, logins: ScramLogins, nonce: str) -> None:
        self.done: LoggedIn | None = None
        self._logins = logins
        self._nonce = nonce
        self._challenge: _Challenge | None = None
        self._is_over = False

    def answer(self, message: bytes) -> bytes:
        if self._is_over:
            raise LoginFailed("a message after the end of SCRAM")
        challenge, self._challenge = self._challenge, None
        self._is_over = challenge is not None
        try:
            scram_fields(message)  # its bounds
            text = message.decode()
            return self._first(text) if challenge is None else self._final(text, challenge)
        except BadScramMessage as problem:
            raise LoginFailed(f"a message of SCRAM that {problem}") from None

    def _first(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise LoginFailed("no first message of SCRAM")
        name = _unescaped(found["name"])
        if found["authorization_id"] not in (None, "", found["name"]):
            raise LoginFailed("an authorization id that is not the user's name")
        extensions = dict(part.split("=", 1) for part in found["extensions"].split(",")[1:])
        by_token = extensions.get(BY_TOKEN, "").lower() == "true"
        secret = self._find(name, by_token=by_token) or self._logins.made_up(name)
        if secret is None:
            raise LoginFailed("an unknown user")
        nonce = found["nonce"] + self._nonce
        salt = encode_base64(secret.salt)
        challenge = f"r={nonce},s={salt},i={secret.iterations}"
        signed = f"{found['bare']},{challenge}"
        self._challenge = _Challenge(name, by_token, secret, found["header"], nonce, signed)
        return challenge.encode()

    def _find(self, name: str, *, by_token: bool) -> ScramSecret | None:
        return (self._logins.find_token if by_token else self._logins.find)(name)

    def _final(self, text: str, challenge: _Challenge) -> bytes:
        found = _FINAL.fullmatch(text)
        if found is None:
            raise LoginFailed("no last message of SCRAM")
        name, by_token, secret, header, nonce, first = challenge
        if not hmac.compare_digest(found["nonce"].encode(), nonce.encode()):
            raise LoginFailed("a nonce that is not this server's")
        if decode_base64(found["binding"]) != header.encode():
            raise LoginFailed("a channel binding that was not agreed on")
        hash_name = HASHES[self._logins.name]
        signed = f"{first},{found['without_proof']}".encode()
        signature = hmac.digest(secret.keys.stored_key, signed, hash_name)
        proof = decode_base64(found["proof"])
        if len(proof) != len(signature):
            raise LoginFailed("a proof of another size")
        stored_key = hashlib.new(hash_name, xor(proof, signature)).digest()
        proven = hmac.compare_digest(stored_key, secret.keys.stored_key)
        # The credential may have been changed or removed since the first message.
        if not proven or self._find(name, by_token=by_token) != secret:
            raise LoginFailed("a wrong user or password")
        self.done = LoggedIn(secret.owner or name, by_token, secret.ends_wall_ms)
        server_signature = hmac.digest(secret.keys.server_key, signed, hash_name)
        return f"v={encode_base64(server_signature)}".encode()


def _unescaped(name: str) -> str:
    """Return a name in which commas and equals signs are escaped."""
    text = name.replace("=2C", ",").replace("=3D", "\0")
    if "=" in text or "\0" in name:
        raise LoginFailed("a name that is not escaped")
    return text.replace("\0", "=")
