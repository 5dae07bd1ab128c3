"""SCRAM with SHA-256 and SHA-512 (RFC 5802, RFC 7677), without channel binding.

The client's side, and the parts that the server shares. Names and passwords are used unchanged:
Kafka does not apply SASLprep either. The server has to prove that it knows the password too.
"""

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.credentials.mechanism import AuthenticationFailed

ITERATIONS_MIN = 4096  # fewer would let a false server guess the password; Kafka's own limit
# more would let a false server keep a client busy: this takes half a second
ITERATIONS_MAX = 1_000_000
ITERATIONS_DIGITS_MAX = len(str(ITERATIONS_MAX))
MESSAGE_BYTES_MAX = 16 * 1024  # a name of any sense, a nonce and a salt
SALT_BYTES = 24
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# The numbers of the mechanisms in requests and in metadata records.
MECHANISM_NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}

NO_CHANNEL_BINDING = "n,,"


class BadScramMessage(ValueError):
    """A message that SCRAM does not know; the text never shows it."""


class ScramKeys(NamedTuple):
    """The two keys that a server stores instead of a password."""

    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return "ScramKeys(hidden)"


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the password as SCRAM hashes it. Slow by design."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def scram_keys(mechanism: str, salted: bytes) -> ScramKeys:
    """Return the stored keys of a salted password."""
    hash_name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    return ScramKeys(
        hashlib.new(hash_name, client_key).digest(), hmac.digest(salted, b"Server Key", hash_name)
    )


def scram_fields(message: bytes) -> dict[str, str]:
    """Return the fields of a message by their letter."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise BadScramMessage(f"has {len(message)} bytes, more than {MESSAGE_BYTES_MAX}")
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise BadScramMessage("is not text") from None
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadScramMessage("is not base64 where it must") from None


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@dataclass(frozen=True, slots=True)
class Scram:
    """A password that neither side sends."""

    name: str
    username: str
    password: str = field(repr=False)
    token: bool = False

    def __post_init__(self) -> None:
        assert self.name in HASHES, "made for a known mechanism only"

    def begin(self, nonce: str, /) -> "ScramExchange":
        return ScramExchange(self.name, self.username, self.password, self.token, nonce=nonce)


@dataclass(slots=True)
class ScramExchange:
    """One authentication: `first`, then `answer` to each challenge until it returns None."""

    mechanism: str
    username: str
    password: str = field(repr=False)
    token: bool = False  # the name belongs to a delegation token
    nonce: str = field(kw_only=True)
    _first_bare: str = field(default="", init=False)
    _server_signature: bytes = field(default=b"", init=False, repr=False)
    _done: bool = field(default=False, init=False)

    def first(self) -> bytes:
        name = self.username.replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if self.token else ""
        self._first_bare = f"n={name},r={self.nonce}{extension}"
        return (NO_CHANNEL_BINDING + self._first_bare).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Return the next message, None at the end. Waits for the hash of the password."""
        if self._done:
            raise AuthenticationFailed("the server goes on after the last message of SCRAM")
        try:
            fields = scram_fields(challenge)
            if "e" in fields:
                raise AuthenticationFailed(f"the server refused: {fields['e']}")
            if self._server_signature:
                self._done = True
                self._verify(fields)
                return None
            return self._prove(challenge, fields)
        except BadScramMessage as problem:
            raise AuthenticationFailed(f"the server's SCRAM message {problem}") from None

    def _prove(self, challenge: bytes, fields: dict[str, str]) -> bytes:
        if "m" in fields:
            raise AuthenticationFailed(
                "the server asks for an extension of SCRAM that is not known"
            )
        nonce, salt, iterations = _server_first(fields)
        if not nonce.startswith(self.nonce) or nonce == self.nonce:
            raise AuthenticationFailed("the server did not continue this client's nonce")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationFailed(
                f"the server asks for {iterations} iterations; at least {ITERATIONS_MIN} "
                f"and at most {ITERATIONS_MAX} are accepted"
            )
        hash_name = HASHES[self.mechanism]
        salted = salted_password(self.mechanism, self.password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        keys = scram_keys(self.mechanism, salted)
        final = f"c={encode_base64(NO_CHANNEL_BINDING.encode())},r={nonce}"
        signed = b",".join([self._first_bare.encode(), challenge, final.encode()])
        signature = hmac.digest(keys.stored_key, signed, hash_name)
        proof = xor(client_key, signature)
        self._server_signature = hmac.digest(keys.server_key, signed, hash_name)
        return f"{final},p={encode_base64(proof)}".encode()

    def _verify(self, fields: dict[str, str]) -> None:
        given = decode_base64(fields.get("v", ""))
        if not hmac.compare_digest(given, self._server_signature):
            raise AuthenticationFailed(
                "the server does not know the password: it may be a false one"
            )


def xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _server_first(fields: dict[str, str]) -> tuple[str, bytes, int]:
    iterations = fields.get("i", "")
    if not (fields.get("r") and fields.get("s") and iterations.isascii() and iterations.isdigit()):
        raise AuthenticationFailed("the server's first SCRAM message is not complete")
    if len(iterations) > ITERATIONS_DIGITS_MAX:
        raise BadScramMessage(f"asks for more than {ITERATIONS_MAX} iterations")
    return fields["r"], decode_base64(fields["s"]), int(iterations)
