"""An issuer of tokens for tests: keys, the document that publishes them, and signed tokens."""

import json
from typing import Any

import pytest

jwt = pytest.importorskip("jwt")

ISSUER, AUDIENCE = "https://issuer.example", "kafka"
NOW_S = 1_800_000_000


class Issuer:
    """One key, of P-256 unless RSA is asked for."""

    def __init__(self, key_id: str = "first", *, rsa_bits: int | None = None) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        self.key_id = key_id
        self.algorithm = "ES256" if rsa_bits is None else "RS256"
        self.private: Any = (
            ec.generate_private_key(ec.SECP256R1())
            if rsa_bits is None
            else rsa.generate_private_key(65537, rsa_bits)
        )

    def entry(self) -> dict[str, Any]:
        """The key as the issuer publishes it."""
        kind = (
            jwt.algorithms.ECAlgorithm if self.algorithm == "ES256" else jwt.algorithms.RSAAlgorithm
        )
        found: dict[str, Any] = json.loads(kind.to_jwk(self.private.public_key()))
        return {**found, "kid": self.key_id, "use": "sig"}

    def public_pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        form = PublicFormat.SubjectPublicKeyInfo
        found: bytes = self.private.public_key().public_bytes(Encoding.PEM, form)
        return found

    def token(self, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """A token; a claim that is None is left out."""
        usual = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": NOW_S, "exp": NOW_S + 60}
        chosen = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        made: str = jwt.encode(
            chosen, self.private, self.algorithm, {"kid": self.key_id, **(header or {})}
        )
        return made


def key_set(*issuers: Issuer) -> bytes:
    return json.dumps({"keys": [each.entry() for each in issuers]}).encode()


def message_of(token: str) -> bytes:
    """What a client sends."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()
