"""The public keys of an issuer of tokens, fetched off the loop and kept while the issuer is away.

They are fetched at the start and at an interval. A token by an unknown key has them fetched again,
once per backoff: an issuer has begun to use another key, or a peer makes keys up.
"""

import logging
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from penstock.config.sasl import BearerSettings
from penstock.security.login.bearer import VerifiedToken
from penstock.security.login.web_tokens import (
    BadKeySet,
    IssuerKey,
    TokenRules,
    UnknownKey,
    parse_key_set,
    verify_web_token,
)
from penstock.world import Timer, World

log = logging.getLogger("penstock.listener")

KEY_SET_BYTES_MAX = 1024 * 1024
FETCH_MS_MAX = 10_000
DOUBLINGS_MAX = 16


class IssuerKeys:
    """The keys of one issuer, for one listener."""

    def __init__(self, world: World, settings: BearerSettings) -> None:
        self._world = world
        self._settings = settings
        self._rules = TokenRules(
            settings.issuer, settings.audiences, settings.subject_claim, settings.skew_ms
        )
        self._keys: Mapping[str, IssuerKey] = {}
        self._failures = 0
        self._fetching = False
        self._fetched_ms = 0.0  # when the last fetch began
        self._timer: Timer | None = None
        self._is_stopped = False
        self._fetch()

    def verify(self, token: str) -> VerifiedToken:
        """Return the principal of a token; raise LoginFailed if the token proves nothing."""
        now_ms = self._world.clock.wall_ms()
        try:
            return verify_web_token(token, self._keys, self._rules, now_ms)
        except UnknownKey:
            allowed_ms = self._fetched_ms + self._settings.backoff_ms_max
            if not self._failures and self._world.clock.mono_ms() >= allowed_ms:
                self._fetch()
            raise

    def stop(self) -> None:
        """Fetch nothing more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _fetch(self) -> None:
        if self._fetching or self._is_stopped:
            return
        self._fetching = True
        self._fetched_ms = self._world.clock.mono_ms()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        arguments = (self._world, self._settings.key_set_url)
        self._world.workers.run(_fetch_keys, arguments, self._fetched)

    def _fetched(self, keys: Mapping[str, IssuerKey] | None, failure: BaseException | None) -> None:
        self._fetching = False
        if self._is_stopped:
            return
        settings = self._settings
        wait_ms = settings.refresh_ms
        if keys is not None:
            self._keys = keys
            self._failures = 0
        else:
            if not self._failures:
                log.warning(
                    "the keys of the issuer at %s cannot be fetched: %s; the former ones stay (%d)",
                    settings.key_set_url,
                    failure,
                    len(self._keys),
                )
            doublings = min(self._failures, DOUBLINGS_MAX)
            wait_ms = min(settings.backoff_ms_max, settings.backoff_ms << doublings)
            self._failures += 1
        at = self._world.clock.mono_ms() + max(wait_ms, settings.backoff_ms, 1)
        self._timer = self._world.timers.at(at, self._fetch)


def _fetch_keys(world: World, url: str) -> Mapping[str, IssuerKey]:
    """Return the keys at a URL. Waits; on any thread."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        data = world.read_file(unquote(parts.path))
    else:
        data = world.fetch(url, KEY_SET_BYTES_MAX, FETCH_MS_MAX)
    if len(data) > KEY_SET_BYTES_MAX:
        raise BadKeySet(f"more than {KEY_SET_BYTES_MAX} bytes")
    return parse_key_set(data)
