"""The logins of one listener: its mechanisms with their credentials, and what was counted.

The users of PLAIN are settings, those of SCRAM are in the image of the metadata.
"""

import logging
from math import inf
from typing import TYPE_CHECKING, Protocol

from penstock.broker.logins.session import SaslSession
from penstock.config.broker import BrokerConfig
from penstock.config.sasl import BEARER, BearerSettings, ListenerSasl, listener_sasl
from penstock.config.values import WrongSetting
from penstock.controller.image import Image
from penstock.credentials.plain import PLAIN
from penstock.credentials.scram import MECHANISM_NUMBERS, ScramKeys, encode_base64
from penstock.security.login.login import LoggedIn, LoginExchange, LoginMechanism
from penstock.security.login.plain import PlainLogins
from penstock.security.login.scram_server import ScramLogins, ScramSecret
from penstock.world import World

if TYPE_CHECKING:
    from penstock.broker.logins.issuer_keys import IssuerKeys

log = logging.getLogger("penstock.listener")

SHARED_SECRET = "delegation.token.secret.key"
FAILURE_DELAY = "connection.failed.authentication.delay.ms"


class LoginHost(Protocol):
    """The broker, as far as logins need it."""

    world: World
    image: Image
    config: BrokerConfig


class ListenerLogins:
    """The mechanisms of a listener, with counts since its start."""

    def __init__(self, broker: LoginHost, listener: str) -> None:
        """Raise WrongSetting if the settings of the listener cannot be served."""
        self._broker = broker
        self._listener = listener
        self.successful = 0
        self.failed = 0
        self.successful_again = 0
        self.failed_again = 0
        self.expired = 0  # connections closed for a request after the end of their session
        self.waiting_bytes = 0  # of requests that are not complete, before a login
        self._issuer_keys: IssuerKeys | None = None
        self._use()

    def _use(self) -> None:
        config = self._broker.config
        settings = listener_sasl(config, self._listener)
        mechanisms = {name: self._made(name, settings) for name in settings.mechanisms}
        self.names = settings.mechanisms
        self.frame_bytes_max = settings.frame_bytes_max
        self.failure_delay_ms = config.integer(FAILURE_DELAY)
        self._lifetimes_ms = settings.lifetimes_ms
        self._mechanisms: dict[str, LoginMechanism] = mechanisms

    def _made(self, mechanism: str, settings: ListenerSasl) -> LoginMechanism:
        if mechanism == PLAIN:
            return PlainLogins(settings.modules[mechanism].options)
        if settings.bearer is not None and mechanism == BEARER:
            return self._bearer(settings.bearer)
        return self._scram(mechanism)

    def _bearer(self, settings: BearerSettings) -> LoginMechanism:
        """Return the tokens; their settings are those of the start."""
        if self._issuer_keys is None:
            from penstock.broker.logins.issuer_keys import IssuerKeys

            self._issuer_keys = IssuerKeys(self._broker.world, settings)
        from penstock.security.login.bearer import BearerLogins

        return BearerLogins(self._issuer_keys.verify)

    def _scram(self, mechanism: str) -> ScramLogins:
        secret = self._broker.config.get(SHARED_SECRET)
        shared_secret = str(secret).encode() if secret else None
        number = MECHANISM_NUMBERS[mechanism]

        def find(name: str) -> ScramSecret | None:
            record = self._broker.image.scram.get((name, number))
            if record is None:
                return None
            keys = ScramKeys(record.stored_key, record.server_key)
            return ScramSecret(record.salt, record.iterations, keys)

        return ScramLogins(mechanism, find, lambda _: None, shared_secret)

    def reconfigured(self) -> None:
        """Use changed settings; keep the old ones if the new ones cannot be served."""
        try:
            self._use()
        except WrongSetting as problem:
            log.error("the former logins of listener %s stay: %s", self._listener, problem.message)

    def stop(self) -> None:
        """Fetch no keys of issuers any more."""
        if self._issuer_keys is not None:
            self._issuer_keys.stop()

    def begin(self, mechanism: str) -> LoginExchange | None:
        """Begin a login; return None for a mechanism that the listener does not offer."""
        found = self._mechanisms.get(mechanism)
        if found is None:
            return None
        entropy = self._broker.world.entropy
        return found.begin(encode_base64(entropy.uuid() + entropy.uuid()))

    def lifetime_ms(self, mechanism: str, done: LoggedIn) -> float:
        """Return how long a login lasts: to the end of its credential, or as long as the settings
        allow; inf without an end."""
        lifetime_ms = float(self._lifetimes_ms.get(mechanism, 0)) or inf
        if done.ends_wall_ms is None:
            return lifetime_ms
        left_ms = done.ends_wall_ms - self._broker.world.clock.wall_ms()
        return max(0.0, min(lifetime_ms, left_ms))

    def knows(self, session: SaslSession) -> bool:
        """Return whether the user of a session is still there."""
        mechanism = self._mechanisms.get(session.mechanism)
        return mechanism is None or session.by_token or mechanism.knows(session.name)


def answered_lifetime_ms(lifetime_ms: float) -> int:
    """Return a lifetime as SaslAuthenticate has it: 0 is no end."""
    return 0 if lifetime_ms == inf else int(lifetime_ms)
