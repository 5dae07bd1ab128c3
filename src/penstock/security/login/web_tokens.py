"""JSON Web Tokens: signatures by the keys of an issuer, and the claims that a listener demands.

PyJWT verifies signatures, by asymmetric algorithms only. Times are compared here: this room has no
clock.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from penstock.security.login.bearer import VerifiedToken
from penstock.security.login.login import LoginFailed

# By the type of a key, or by its curve. None of these signatures can be made with a public key
# (RFC 8725, 2.1).
ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
}
RSA_BITS_MIN = 2048
KEYS_MAX = 100
_OPTIONS: Any = {
    "require": ["exp", "iss", "aud"],
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}


class BadKeySet(Exception):
    """The document of an issuer has no usable keys."""


class UnknownKey(LoginFailed):
    """A token is signed by a key that the issuer had not published when it was last asked."""


class TokenRules(NamedTuple):
    """The claims that a token must have."""

    issuer: str
    audiences: tuple[str, ...]
    subject_claim: str = "sub"
    skew_ms: int = 30_000  # by which the clocks of issuer and node may differ


class IssuerKey(NamedTuple):
    """A public key, and the algorithms that go with it."""

    key: Any
    algorithms: tuple[str, ...]


def parse_key_set(data: bytes) -> Mapping[str, IssuerKey]:
    """Return the public keys of a JSON Web Key Set (RFC 7517) by their ids; '' is a key without."""
    try:
        document = json.loads(data)
        entries = document["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadKeySet("no JSON Web Key Set") from None
    if not isinstance(entries, list) or len(entries) > KEYS_MAX:
        raise BadKeySet(f"no list of at most {KEYS_MAX} keys")
    keys: dict[str, IssuerKey] = {}
    for entry in entries:
        key = _key(entry) if isinstance(entry, dict) else None
        if key is not None:  # else of a kind that is not known: the issuer has others
            keys[str(entry.get("kid", ""))] = key
    if not keys:
        raise BadKeySet("no key for signatures that is known here")
    return keys


def _key(entry: Mapping[str, Any]) -> IssuerKey | None:
    """Return a key for signatures; None for any other."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    is_rsa = entry.get("kty") == "RSA"
    known = ALGORITHMS.get("RSA" if is_rsa else str(entry.get("crv")), ())
    algorithms = tuple(each for each in known if entry.get("alg", each) == each)
    if not algorithms or entry.get("use", "sig") != "sig":
        return None
    try:
        key: Any = PyJWK.from_dict(dict(entry), algorithms[0]).key
    except (PyJWTError, ValueError, TypeError):
        return None
    if is_rsa and key.key_size < RSA_BITS_MIN:
        return None
    return IssuerKey(key, algorithms)


def verify_web_token(
    token: str, keys: Mapping[str, IssuerKey], rules: TokenRules, now_ms: int
) -> VerifiedToken:
    """Return the principal of a token; raise LoginFailed if the token proves nothing."""
    import jwt

    try:
        key_id = str(jwt.get_unverified_header(token).get("kid", ""))
        key = keys.get(key_id)
        if key is None and not key_id and len(keys) == 1:
            key = next(iter(keys.values()))
        if key is None:
            raise UnknownKey("a token by a key that the issuer has not published")
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=list(key.algorithms),
            audience=list(rules.audiences),
            issuer=rules.issuer,
            options=_OPTIONS,
        )
    except (jwt.exceptions.PyJWTError, ValueError, TypeError, RecursionError) as problem:
        raise LoginFailed(f"a bad token ({type(problem).__name__})") from None
    ends_ms = _claimed_ms(claims, "exp")
    if ends_ms is None or ends_ms + rules.skew_ms <= now_ms:
        raise LoginFailed("an expired token")
    for claim in ("nbf", "iat"):
        starts_ms = _claimed_ms(claims, claim)
        if starts_ms is not None and starts_ms - rules.skew_ms > now_ms:
            raise LoginFailed(f"a token from the future ({claim})")
    name = claims.get(rules.subject_claim)
    if not isinstance(name, str) or not name.strip():
        raise LoginFailed(f"a token without the claim {rules.subject_claim}")
    return VerifiedToken(name, ends_ms)


def _claimed_ms(claims: Mapping[str, Any], claim: str) -> int | None:
    """Return a time among the claims; None without one."""
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise LoginFailed(f"a token with an impossible {claim}")
    return int(value * 1000)
