"""TLS of a node: the stores of its listeners and links, read at the start and again on request.

A reload reads the stores off the loop and tries them in a handshake with themselves. Subject and
alternative names stay the same unless the configuration allows a change. One bad store leaves all
settings as they are.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.config.broker import BrokerConfig
from penstock.config.table import LISTENER_PREFIX
from penstock.credentials import stores
from penstock.credentials.certificate import Certificate, parse_certificate
from penstock.credentials.der import DerBroken
from penstock.credentials.stores import TlsStore, certificates_in, split_identity
from penstock.credentials.tls import Tls
from penstock.security.distinguished_name import name_text
from penstock.security.mapping_rules import MappingRules
from penstock.world import Listening, TlsFailed, TlsSettings, World

log = logging.getLogger("penstock.tls")

DAY_MS = 24 * 3_600_000
WARNED_BEFORE_END_MS = 30 * DAY_MS

ReadFile = Callable[[str], bytes]


class ListenerTls(NamedTuple):
    """The settings of one listener, or of the links to listeners of that name."""

    settings: TlsSettings
    certificate: Certificate | None  # its own
    may_change_subject: bool
    may_change_names: bool
    origin: str  # the key and the file of the certificate, for messages


class NodeTls:
    """The present settings by the name of the listener. Used on the loop."""

    def __init__(self, world: World, config: BrokerConfig) -> None:
        self._world = world
        self._network = world.network
        self._config = config
        self._settings: dict[str, ListenerTls] = {}
        self._listening: dict[str, Listening] = {}
        self._reloads = 0

    @property
    def is_used(self) -> bool:
        """Return whether a listener or a link speaks TLS."""
        return bool(self._settings)

    def load_now(self) -> None:
        """Read all stores. Raise TlsFailed with the reason and the next step."""
        config = self._config
        loaded = load(config, self._world.read_file, self._world.clock.wall_ms())
        for name, each in loaded.items():
            try:
                self._network.prepare_tls_now(each.settings)
            except TlsFailed as problem:
                raise TlsFailed(_with_origin(name, each, problem)) from problem
        self._settings = loaded
        self.warn_of_ends()

    def warn_of_ends(self) -> None:
        """Log each certificate that ends within 30 days."""
        now_ms = self._world.clock.wall_ms()
        for name, each in self._settings.items():
            certificate = each.certificate
            if certificate is None or certificate.not_after_ms - now_ms > WARNED_BEFORE_END_MS:
                continue
            days = (certificate.not_after_ms - now_ms) // DAY_MS
            log.warning(
                "listener %s: the certificate of %s ends in %d days: replace it, and run"
                " `penstock cert reload`",
                name,
                each.origin,
                days,
            )

    def ends_ms(self) -> dict[str, int]:
        """Return when the certificate of each listener ends, by the wall clock."""
        return {
            name: each.certificate.not_after_ms
            for name, each in self._settings.items()
            if each.certificate is not None
        }

    def of(self, name: str) -> TlsSettings | None:
        """Return the settings of a listener's name; None for one without TLS."""
        found = self._settings.get(name)
        return None if found is None else found.settings

    def opened(self, name: str, listening: Listening) -> None:
        """Note a listener, which gets later settings."""
        if name in self._settings:
            self._listening[name] = listening

    def follow(self, config: BrokerConfig) -> None:
        """Read the stores of a configuration again, and use those that differ. A failure is logged,
        and changes nothing."""
        if self.is_used:
            self.reload(config, _log_failure)

    def reload(
        self,
        config: BrokerConfig,
        done: Callable[[str | None], None],
        *,
        only_try: bool = False,
    ) -> None:
        """Read the stores of a configuration, and use them unless that is only a trial. `done` gets
        the reason of a failure, on a later turn."""
        if not self._settings:
            self._world.timers.soon(lambda: done(None))
            return
        if not only_try:
            self._reloads += 1
        number = self._reloads

        def prepared(loaded: Mapping[str, ListenerTls], problem: str | None) -> None:
            if problem is None and not only_try and number == self._reloads:
                self._use(loaded)
            done(problem)

        def read(loaded: dict[str, ListenerTls], failure: BaseException | None) -> None:
            if failure is not None:
                if not isinstance(failure, TlsFailed):
                    raise failure
                done(str(failure))
                return
            problem = self._forbidden_change(loaded)
            if problem is not None:
                done(problem)
            else:
                self._prepare(loaded, list(loaded.items()), prepared)

        arguments = (config, self._world.read_file, self._world.clock.wall_ms())
        self._world.workers.run(load, arguments, read)

    def _prepare(
        self,
        loaded: Mapping[str, ListenerTls],
        rest: list[tuple[str, ListenerTls]],
        prepared: Callable[[Mapping[str, ListenerTls], str | None], None],
    ) -> None:
        """Try the changed settings, one after the other."""
        while rest and self.of(rest[0][0]) == rest[0][1].settings:
            rest = rest[1:]
        if not rest:
            prepared(loaded, None)
            return
        name, first = rest[0]

        def tried(failure: TlsFailed | None) -> None:
            if failure is not None:
                prepared(loaded, _with_origin(name, first, failure))
            else:
                self._prepare(loaded, rest[1:], prepared)

        self._network.prepare_tls(first.settings, tried)

    def _forbidden_change(self, loaded: Mapping[str, ListenerTls]) -> str | None:
        """Return which change the configuration forbids; None if all are allowed."""
        for name, after in loaded.items():
            before = self._settings[name]
            if (before.certificate is None) != (after.certificate is None):
                return f"listener {name}: a keystore can be replaced, but not added or removed"
            if before.certificate is None or after.certificate is None:
                continue
            prefix = f"{LISTENER_PREFIX}{name.lower()}."
            old, new = name_text(before.certificate.subject), name_text(after.certificate.subject)
            if old.lower() != new.lower() and not after.may_change_subject:
                return (
                    f"{after.origin}: the subject is {new} instead of {old}; "
                    f"{prefix}ssl.allow.dn.changes=true allows that"
                )
            names = after.certificate.alternative_names
            if names != before.certificate.alternative_names and not after.may_change_names:
                return (
                    f"{after.origin}: the alternative names differ from those of the present "
                    f"certificate; {prefix}ssl.allow.san.changes=true allows that"
                )
        return None

    def _use(self, loaded: Mapping[str, ListenerTls]) -> None:
        for name, after in loaded.items():
            before, self._settings[name] = self._settings[name], after
            if before.settings == after.settings:
                continue
            listening = self._listening.get(name)
            if listening is not None:
                listening.reload(after.settings)
            log.info("%s: new connections use the certificates of %s", name, after.origin)


def _log_failure(problem: str | None) -> None:
    if problem is not None:
        log.error("the certificates stay as they are: %s", problem)


def secured_names(config: BrokerConfig) -> Iterable[str]:
    """Return the names of the listeners with TLS: of this node, and of its links' peers."""
    names = [each.name for each in config.listeners]
    if config.is_broker:
        names.append(config.inter_broker_listener_name)
    names += config.controller_listener_names[:1]
    return [each for each in dict.fromkeys(names) if config.is_secured(each)]


def load(config: BrokerConfig, read_file: ReadFile, now_ms: int) -> dict[str, ListenerTls]:
    """Read the stores of all listeners with TLS. Raise TlsFailed with the reason and the next
    step. Waits for the disk; on any thread."""
    return {name: _load_one(config, name, read_file, now_ms) for name in secured_names(config)}


def _load_one(config: BrokerConfig, name: str, read_file: ReadFile, now_ms: int) -> ListenerTls:
    prefix = f"{LISTENER_PREFIX}{name.lower()}."
    properties = config.tls_properties(name)
    for key in ("ssl.engine.factory.class", "ssl.provider"):
        if properties.get(key):
            raise TlsFailed(f"{prefix}{key} is Java's and cannot run here; remove it")
    own = any(each.name == name for each in config.listeners)
    try:
        MappingRules.parse(properties["ssl.principal.mapping.rules"])
        tls = Tls.from_properties(properties, prefix)
        if tls.keystore is None and own:
            raise TlsFailed(
                f"listener {name} speaks TLS and has no certificate; set {prefix}"
                "ssl.keystore.location=FILE (PEM, PKCS12 or JKS) and its password"
            )
        identity = None if tls.keystore is None else _identity(tls.keystore, read_file)
        trusted = None if tls.truststore is None else _trusted(tls.truststore, read_file)
        certificate = None
        if tls.keystore is not None and identity is not None:
            certificate = _certificate(tls.keystore, identity.pem, now_ms)
        settings = tls.settings(trusted, identity, _client_auth(config, name))
    except ValueError as problem:
        raise TlsFailed(f"listener {name}: {problem}") from problem
    return ListenerTls(
        replace(settings, trusts_itself=own and _links_go_to(config, name)),
        certificate,
        properties["ssl.allow.dn.changes"] == "true",
        properties["ssl.allow.san.changes"] == "true",
        f"listener {name}" if tls.keystore is None else tls.keystore.name,
    )


def _client_auth(config: BrokerConfig, name: str) -> str:
    """Return whether clients show certificates. With SASL only the listener's own key counts."""
    if config.security_protocols.get(name) == "SASL_SSL":
        return config.of_listener_alone(name, "ssl.client.auth") or "none"
    return config.tls_properties(name)["ssl.client.auth"]


def _links_go_to(config: BrokerConfig, name: str) -> bool:
    return name in (config.inter_broker_listener_name, *config.controller_listener_names)


def _identity(store: TlsStore, read_file: ReadFile) -> stores.TlsIdentity:
    return stores.identity(store, _content(store, read_file), in_clear=True)


def _trusted(store: TlsStore, read_file: ReadFile) -> str:
    return stores.trusted_certificates(store, _content(store, read_file))


def _content(store: TlsStore, read_file: ReadFile) -> bytes | None:
    if store.location is None:
        return None
    try:
        return read_file(store.location)
    except OSError as problem:
        raise store.unreadable(problem) from problem


def _certificate(store: TlsStore, pem: str, now_ms: int) -> Certificate:
    """Return the node's own certificate. Raise BadStore for one that has expired."""
    first = certificates_in(split_identity(store, pem).certificates[0])
    try:
        found = parse_certificate(first[0] if first else b"")
    except DerBroken as problem:
        raise stores.BadStore(f"{store.name}: {problem}") from problem
    if found.not_after_ms < now_ms:
        raise stores.BadStore(
            f"{store.name}: the certificate of {name_text(found.subject)} has expired. "
            f"See: openssl storeutl -noout -text -certs {store.location}"
        )
    return found


def _with_origin(name: str, tls: ListenerTls, problem: TlsFailed) -> str:
    return f"listener {name}: {tls.origin}: {problem}"
