"""Sources of OAUTHBEARER tokens: made here without a signature, fetched, or read from a file.

An unsigned token proves nothing and is for development, as in Kafka. A token from an endpoint needs
the client's own credentials (RFC 6749, 4.4), and is used for most of its lifetime.
"""

import base64
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.client.transport.tls_files import tls_context
from penstock.credentials.mechanism import AuthenticationFailed
from penstock.credentials.tls import Tls

LIFETIME_SECONDS_DEFAULT = 3600
# As Kafka refreshes: after four fifths of a token's lifetime.
USED_SHARE = 0.8
ANSWER_BYTES_MAX = 1024 * 1024
FETCHES_MAX = 3
FETCH_PAUSE_SECONDS = 0.2
RESERVED_CLAIMS = frozenset({"iat", "exp"})

_STRING, _NUMBER, _LIST = (
    "unsecuredLoginStringClaim_",
    "unsecuredLoginNumberClaim_",
    "unsecuredLoginListClaim_",
)


class TokenSource(Protocol):
    """A source of the token for the next authentication."""

    def token(self) -> str: ...


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    """Tokens without a signature, from the options of the JAAS configuration."""

    options: Mapping[str, str]

    def token(self) -> str:
        now = time.time()
        lifetime = float(
            self.options.get("unsecuredLoginLifetimeSeconds", LIFETIME_SECONDS_DEFAULT)
        )
        claims: dict[str, object] = {"exp": now + lifetime, "iat": now, **self.claims()}
        return ".".join([_base64(json.dumps({"alg": "none"})), _base64(json.dumps(claims)), ""])

    def claims(self) -> dict[str, object]:
        """Return the claims. Raise ValueError if the options make no token."""
        found: dict[str, object] = {}
        for option, value in self.options.items():
            if option.startswith(_STRING):
                found[option.removeprefix(_STRING)] = value
            elif option.startswith(_NUMBER):
                found[option.removeprefix(_NUMBER)] = float(value)
            elif option.startswith(_LIST):
                # The first character is the delimiter: "|a|b" is a and b.
                found[option.removeprefix(_LIST)] = value[1:].split(value[0]) if value[1:] else []
        reserved = sorted(RESERVED_CLAIMS & found.keys())
        if reserved:
            raise ValueError(f"the claim {reserved[0]} is made by the client; remove its option")
        principal = self.options.get("unsecuredLoginPrincipalClaimName", "sub")
        if not found.get(principal):
            raise ValueError(
                f'an unsecured token needs its principal: {_STRING}{principal}="...", or set '
                "sasl.oauthbearer.token.endpoint.url to fetch tokens"
            )
        return found


@dataclass(frozen=True, slots=True)
class FileTokens:
    """A token in a file that another program refreshes."""

    path: str

    def token(self) -> str:
        try:
            with open(self.path, encoding="utf-8") as file:
                return file.read(ANSWER_BYTES_MAX).strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise AuthenticationFailed(
                f"the token file {self.path} cannot be read: {problem}"
            ) from problem


@dataclass(slots=True)
class EndpointTokens:
    """Tokens from an endpoint, one fetch for several connections."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    timeout_ms: int = 10_000
    tls: Tls | None = None
    _kept: str = field(default="", init=False, repr=False)
    _fresh_until: float = field(default=0.0, init=False)

    def token(self) -> str:
        now = time.time()
        if not self._kept or now >= self._fresh_until:
            self._kept, lifetime_s = self._fetch()
            self._fresh_until = now + lifetime_s * USED_SHARE
        return self._kept

    def _fetch(self) -> tuple[str, float]:
        from urllib.error import HTTPError

        problem = ""
        for attempt in range(FETCHES_MAX):
            if attempt:
                time.sleep(FETCH_PAUSE_SECONDS * attempt)
            try:
                return _token_of(self._ask())
            except HTTPError as refused:
                problem = f"HTTP {refused.code} {refused.reason}"
                if refused.code < 500:
                    break  # the same request gets the same answer
            except (OSError, ValueError) as failed:
                problem = str(failed)
        raise AuthenticationFailed(f"no token from {self.url}: {problem}")

    def _ask(self) -> bytes:
        from urllib.parse import urlencode, urlsplit
        from urllib.request import Request, urlopen

        fields = {"grant_type": "client_credentials"}
        if self.scope:
            fields["scope"] = self.scope
        credentials = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        request = Request(
            self.url,
            data=urlencode(fields).encode(),
            headers={
                "Authorization": f"Basic {credentials}",
                "Accept": "application/json",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        context = None
        if urlsplit(self.url).scheme == "https":
            context = tls_context(self.tls or Tls())
        with urlopen(request, timeout=self.timeout_ms / 1000, context=context) as answer:
            data: bytes = answer.read(ANSWER_BYTES_MAX)
        return data


def _token_of(answer: bytes) -> tuple[str, float]:
    """Return the token of an endpoint's response, and its lifetime in seconds."""
    told = json.loads(answer)
    token = told.get("access_token") if isinstance(told, dict) else None
    if not isinstance(token, str) or not token:
        raise ValueError("the answer has no access_token")
    lifetime = told.get("expires_in")
    if isinstance(lifetime, int | float):
        return token, float(lifetime)
    return token, _lifetime_of(token)


def _lifetime_of(token: str) -> float:
    """Return the lifetime by the token's own claim; 0 without one, so that it is used once."""
    expires_s = claims_of(token).get("exp")
    return max(0.0, expires_s - time.time()) if isinstance(expires_s, int | float) else 0.0


def claims_of(token: str) -> Mapping[str, object]:
    """Return the claims of a JSON Web Token; of another token none."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
