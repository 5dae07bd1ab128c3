"""TLS and SASL in librdkafka's words, from Kafka's keys.

Stores are read here and passed as PEM text, a JAAS configuration as user and password, or as a
function that returns tokens. Without TLS or SASL in security.protocol their keys have no effect, as
in Kafka, and no file is read.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from penstock.client.settings.key_reader import ConfiguredKeys
from penstock.client.settings.keys_security import KEYS
from penstock.client.settings.values import RdkafkaValue, SettingRefused
from penstock.client.transport.sasl import OAuthBearer
from penstock.client.transport.security import Protocol, Security
from penstock.client.transport.tls_files import identity, trusted_certificates
from penstock.client.transport.tokens import claims_of
from penstock.credentials.plain import SaslPlain
from penstock.credentials.scram import Scram
from penstock.credentials.stores import BadStore, TlsStore, split_identity
from penstock.credentials.tls import PROTOCOLS_DEFAULT, Tls, openssl_name

Rdkafka: TypeAlias = dict[str, RdkafkaValue]
# (token, its expiry in seconds since 1970, principal, extensions)
Token: TypeAlias = tuple[str, float, str, dict[str, str]]

# The lifetime of a token without an expiry; most of it later, a new one is requested.
OPAQUE_TOKEN_S = 300.0
_NAMES = frozenset(row.name for row in KEYS)
# librdkafka's own keys for credentials, which pass unchanged.
_OWN_CREDENTIALS = (
    "sasl.username",
    "oauth_cb",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.method",
    "enable.sasl.oauthbearer.unsecure.jwt",
)
_OWN_TRUST = ("ssl.ca.location", "ssl.ca.pem")
_OWN_IDENTITY = (
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
)


def rdkafka_security(given: ConfiguredKeys) -> Rdkafka:
    """Return the keys of TLS and SASL for librdkafka."""
    properties = security_properties(given)
    protocol = _protocol(properties)
    told: Rdkafka = {"security.protocol": protocol.value.lower()}
    secured = protocol in (Protocol.SSL, Protocol.SASL_SSL)
    named = protocol in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)
    if secured:
        told |= _tls(given, properties)
    if named:
        told |= _sasl(given, properties)
    if "oauth_cb" in given.own and told.get("sasl.mechanism") != "OAUTHBEARER":
        # Without a source librdkafka would wait for a token for ever.
        del given.own["oauth_cb"]
        given.note("oauth_cb", "it gives tokens, and sasl.mechanism is not OAUTHBEARER")
    for name in properties:
        without = (name.startswith("ssl.") and not secured) or (
            name.startswith("sasl.") and not named
        )
        if without:
            given.note(name, f"security.protocol is {protocol}")
    return told


def security_properties(given: ConfiguredKeys) -> dict[str, str]:
    """Return Kafka's keys of TLS and SASL, as text."""
    return {
        name: str(value)
        for name, value in given.values.items()
        if name in _NAMES and value is not None
    }


def refusal(problem: ValueError, fallback: str) -> SettingRefused:
    """Return the refusal; the first word of such an error is the key, if it names one."""
    text = str(problem)
    key = re.match(r"(?:the [a-z ]*of )?((?:sasl|ssl|security)[a-z.]*[a-z])", text)
    return SettingRefused(key.group(1) if key else fallback, text)


def _protocol(properties: Mapping[str, str]) -> Protocol:
    text = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    try:
        return Protocol(text)
    except ValueError:
        raise SettingRefused(
            "security.protocol", f"is {text!r}; it takes {', '.join(Protocol)}"
        ) from None


def _tls(given: ConfiguredKeys, properties: Mapping[str, str]) -> Rdkafka:
    try:
        tls = Tls.from_properties(properties)
        told: Rdkafka = {
            "ssl.endpoint.identification.algorithm": "https" if tls.check_host else "none"
        }
        _check_versions(tls)
        if tls.cipher_suites:
            told |= _ciphers(given, tls.cipher_suites)
        if tls.truststore is not None:
            _exclude(given, "ssl.truststore", _OWN_TRUST)
            told["ssl.ca.pem"] = trusted_certificates(tls.truststore)
        if tls.keystore is not None:
            _exclude(given, "ssl.keystore", _OWN_IDENTITY)
            told |= _identity(tls.keystore)
        elif "ssl.key.password" in properties:
            told["ssl.key.password"] = properties["ssl.key.password"]
    except SettingRefused:
        raise
    except ValueError as problem:
        raise refusal(problem, "ssl.keystore.location") from problem
    return told


def _exclude(given: ConfiguredKeys, kafkas: str, own: tuple[str, ...]) -> None:
    for name in own:
        if name in given.own:
            raise SettingRefused(name, f"and {kafkas}.* say the same thing; say one of them")


def _check_versions(tls: Tls) -> None:
    missing = [each for each in PROTOCOLS_DEFAULT if each not in tls.protocols]
    if missing:
        raise SettingRefused(
            "ssl.enabled.protocols",
            f"has no {missing[0]}, and librdkafka cannot take it away; say "
            f"{','.join(PROTOCOLS_DEFAULT)}, and limit it on the broker's listener",
        )


def _ciphers(given: ConfiguredKeys, suites: tuple[str, ...]) -> Rdkafka:
    older = [openssl_name(each) if "_WITH_" in each else each for each in suites]
    older = [each for each in older if not each.startswith("TLS_")]
    if len(older) < len(suites):
        given.note("ssl.cipher.suites", "those of TLS 1.3 cannot be chosen among; all stay allowed")
    return {"ssl.cipher.suites": ":".join(older)} if older else {}


def _identity(store: TlsStore) -> Rdkafka:
    pem, password = identity(store)
    try:
        parts = split_identity(store, pem)
    except BadStore as problem:
        raise SettingRefused(f"ssl.{store.role}.location", str(problem)) from problem
    told: Rdkafka = {
        "ssl.certificate.pem": "\n".join(parts.certificates) + "\n",
        "ssl.key.pem": parts.key + "\n",
    }
    if password:
        told["ssl.key.password"] = password
    return told


def _sasl(given: ConfiguredKeys, properties: Mapping[str, str]) -> Rdkafka:
    own = [name for name in _OWN_CREDENTIALS if name in given.own]
    mechanism = properties.get("sasl.mechanism", "").strip().upper()
    if own:
        if "sasl.jaas.config" in properties:
            raise SettingRefused(own[0], "and sasl.jaas.config say the same; say one of them")
        if not mechanism:
            raise SettingRefused("sasl.mechanism", "is missing, e.g. SCRAM-SHA-512")
        return {"sasl.mechanism": mechanism, **_oidc(given, properties)}
    try:
        found = Security.from_properties(_only_sasl(properties)).mechanism
    except ValueError as problem:
        raise refusal(problem, "sasl.jaas.config") from problem
    match found:
        case SaslPlain():
            return _user(found.name, found.username, found.password)
        case Scram():
            if found.token:
                raise SettingRefused(
                    "sasl.jaas.config",
                    'has tokenauth="true", and librdkafka cannot log in with a delegation token; '
                    "give it a user and password. Admin can",
                )
            return _user(found.name, found.username, found.password)
        case OAuthBearer():
            return {"sasl.mechanism": found.name, "oauth_cb": tokens_of(found)}
    raise AssertionError("a mechanism is one of three")


def _only_sasl(properties: Mapping[str, str]) -> dict[str, str]:
    """Drop the keys of TLS, which are handled elsewhere."""
    kept = {name: value for name, value in properties.items() if not name.startswith("ssl.")}
    return {**kept, "security.protocol": Protocol.SASL_PLAINTEXT.value}


def _oidc(given: ConfiguredKeys, properties: Mapping[str, str]) -> Rdkafka:
    """Return Kafka's keys that librdkafka has under the same name, for its own token requests."""
    if "sasl.oauthbearer.method" not in given.own:
        return {}
    return {
        name: properties[name]
        for name in (
            "sasl.oauthbearer.token.endpoint.url",
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.scope",
        )
        if name in properties
    }


def _user(mechanism: str, name: str, password: str) -> Rdkafka:
    return {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}


def tokens_of(bearer: OAuthBearer) -> Callable[[str], Token]:
    """Return the function that librdkafka calls for a token, and again before its expiry."""
    extensions = dict(bearer.extensions)

    def give(_configuration: str) -> Token:
        token = bearer.source.token()
        claims = claims_of(token)
        expires_s = claims.get("exp")
        if not isinstance(expires_s, int | float):
            expires_s = time.time() + OPAQUE_TOKEN_S
        return token, expires_s, str(claims.get("sub", "")), extensions

    return give
