"""SCRAM with SHA-256 and SHA-512, the client's side (RFC 5802, RFC 7677), without channel binding.

Names and passwords are used unchanged: Kafka does not apply SASLprep either. The server has to
prove that it knows the password too.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

NONCE_BYTES = 24
ITERATIONS_MIN = 4096  # fewer would let a false server guess the password; Kafka's own limit
# more would let a false server keep a client busy: this takes half a second
ITERATIONS_MAX = 1_000_000
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

_NO_CHANNEL_BINDING = "n,,"


class AuthenticationFailed(Exception):
    """One side did not prove itself to the other; the text says which and why."""


@dataclass(slots=True)
class ScramExchange:
    """One authentication: `first`, then `answer` to each challenge until it returns None."""

    mechanism: str
    username: str
    password: str = field(repr=False)
    token: bool = False  # the name belongs to a delegation token
    nonce: str = field(
        default_factory=lambda: base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
    )
    _first_bare: str = field(default="", init=False)
    _server_signature: bytes = field(default=b"", init=False, repr=False)
    _done: bool = field(default=False, init=False)

    def first(self) -> bytes:
        name = self.username.replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if self.token else ""
        self._first_bare = f"n={name},r={self.nonce}{extension}"
        return (_NO_CHANNEL_BINDING + self._first_bare).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        if self._done:
            raise AuthenticationFailed("the server goes on after the last message of SCRAM")
        fields = _fields(challenge)
        if "e" in fields:
            raise AuthenticationFailed(f"the server refused: {fields['e']}")
        if self._server_signature:
            self._done = True
            self._verify(fields)
            return None
        return self._prove(challenge, fields)

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
        salted = hashlib.pbkdf2_hmac(hash_name, self.password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        stored_key = hashlib.new(hash_name, client_key).digest()
        binding = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        final = f"c={binding},r={nonce}"
        signed = b",".join([self._first_bare.encode(), challenge, final.encode()])
        signature = hmac.digest(stored_key, signed, hash_name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", hash_name)
        self._server_signature = hmac.digest(server_key, signed, hash_name)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, fields: dict[str, str]) -> None:
        given = _decoded(fields.get("v", ""))
        if not hmac.compare_digest(given, self._server_signature):
            raise AuthenticationFailed(
                "the server does not know the password: it may be a false one"
            )


def _fields(message: bytes) -> dict[str, str]:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed("the server's SCRAM message is not text") from None
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _server_first(fields: dict[str, str]) -> tuple[str, bytes, int]:
    iterations = fields.get("i", "")
    if not (fields.get("r") and fields.get("s") and iterations.isdecimal()):
        raise AuthenticationFailed("the server's first SCRAM message is not complete")
    return fields["r"], _decoded(fields["s"]), int(iterations)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed(
            "the server's SCRAM message is not base64 where it must"
        ) from None
