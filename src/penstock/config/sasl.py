"""SASL in the settings of a node: mechanisms, login modules and lifetimes, listener by listener.

A login module belongs to a listener and a mechanism, as in Kafka:
`listener.name.L.MECHANISM.sasl.jaas.config`. PLAIN's has the users; `username` and `password` are
the node's own, for its connections to other nodes.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import urlsplit

from penstock.config.broker import BrokerConfig
from penstock.config.key import Value
from penstock.config.listeners import SASL_PROTOCOLS
from penstock.config.table import LISTENER_PREFIX
from penstock.config.values import WrongSetting
from penstock.credentials.jaas import BadJaasConfig, LoginModule, parse_jaas
from penstock.credentials.mechanism import Mechanism
from penstock.credentials.plain import PLAIN, SaslPlain
from penstock.credentials.scram import HASHES, Scram

BEARER = "OAUTHBEARER"
SERVED_MECHANISMS = (PLAIN, *HASHES, BEARER)
LINK_MECHANISMS = (PLAIN, *HASHES)  # of the connections to other nodes
ENABLED, JAAS, LIFETIME = "sasl.enabled.mechanisms", "sasl.jaas.config", "connections.max.reauth.ms"
FRAME_BYTES = "sasl.server.max.receive.size"
# Never loaded by name: a fixed table of what the classes of Kafka do.
LOGIN_MODULES = {
    PLAIN: "PlainLoginModule",
    **dict.fromkeys(HASHES, "ScramLoginModule"),
    BEARER: "OAuthBearerLoginModule",
}
BETWEEN_BROKERS = "sasl.mechanism.inter.broker.protocol"
TO_CONTROLLERS = "sasl.mechanism.controller.protocol"
PACKAGES = {PLAIN: "plain", **dict.fromkeys(HASHES, "scram"), BEARER: "oauthbearer"}
KEY_SET_URL = "sasl.oauthbearer.jwks.endpoint.url"
ISSUER = "sasl.oauthbearer.expected.issuer"
AUDIENCE = "sasl.oauthbearer.expected.audience"


class BearerSettings(NamedTuple):
    """The tokens of OAUTHBEARER that a listener accepts, and where the keys of their issuer are."""

    key_set_url: str
    issuer: str
    audiences: tuple[str, ...]
    subject_claim: str
    skew_ms: int
    refresh_ms: int
    backoff_ms: int
    backoff_ms_max: int


class ListenerSasl(NamedTuple):
    """SASL on one listener. Only PLAIN needs a login module."""

    mechanisms: tuple[str, ...]
    modules: Mapping[str, LoginModule]
    lifetimes_ms: Mapping[str, int]  # of a login; 0 has no end
    frame_bytes_max: int
    bearer: BearerSettings | None


def listener_sasl(config: BrokerConfig, listener: str) -> ListenerSasl:
    """Return the settings of a listener; raise WrongSetting if they cannot be served."""
    mechanisms = enabled_mechanisms(config, listener)
    modules: dict[str, LoginModule] = {}
    for mechanism in mechanisms:
        module = login_module(config, listener, mechanism)
        if module is not None:
            modules[mechanism] = module
        elif mechanism == PLAIN:
            raise WrongSetting(
                f"the listener {listener} offers PLAIN and has no users; "
                f"{jaas_advice(listener, mechanism, 'user_alice')}",
                jaas_key(listener, mechanism),
                ENABLED,
            )
    lifetimes = {each: _lifetime_ms(config, listener, each) for each in mechanisms}
    frame_bytes_max = config.of_listener(listener, FRAME_BYTES)
    bearer = _bearer_settings(config, listener) if BEARER in mechanisms else None
    return ListenerSasl(mechanisms, modules, lifetimes, frame_bytes_max, bearer)


def enabled_mechanisms(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    """Return the mechanisms that a listener offers; raise WrongSetting if one is not served."""
    key = f"{LISTENER_PREFIX}{listener.lower()}.{ENABLED}"
    own = config.own_value(key)
    names = own if isinstance(own, tuple) else config.texts(ENABLED)
    found = tuple(dict.fromkeys(each.strip().upper() for each in names if each.strip()))
    others = [each for each in found if each not in SERVED_MECHANISMS]
    if found and not others:
        return found
    offer = f"offers {', '.join(others)}, which is not served" if others else "offers no mechanism"
    default = " (Kafka's default)" if others == ["GSSAPI"] and own is None else ""
    raise WrongSetting(
        f"the listener {listener} {offer}{default}; set {key} to some of "
        f"{', '.join(SERVED_MECHANISMS)}",
        key,
        ENABLED,
    )


def jaas_key(listener: str, mechanism: str) -> str:
    return f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"


def jaas_advice(listener: str, mechanism: str, *options: str) -> str:
    """Return the line to add to a file, with the options that are missing."""
    texts = " ".join(f'{option}="..."' for option in options)
    module = f"org.apache.kafka.common.security.{PACKAGES[mechanism]}.{LOGIN_MODULES[mechanism]}"
    return f"add {jaas_key(listener, mechanism)}={module} required {texts};"


def login_module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule | None:
    """Return the login module of a listener's mechanism, None without one."""
    key = jaas_key(listener, mechanism)
    text = config.own_value(key)
    if text is None:
        return None
    try:
        return check_login_module(mechanism, str(text))
    except BadJaasConfig as problem:
        raise WrongSetting(f"{key}: {problem}", key) from None


def check_login_module(mechanism: str, text: str) -> LoginModule:
    """Return the module of a JAAS text; raise BadJaasConfig, without a secret in its text."""
    module = parse_jaas(text)
    wanted = LOGIN_MODULES.get(mechanism)
    if wanted is not None and module.short_name != wanted:
        raise BadJaasConfig(f"{mechanism} goes with {wanted}, the value names {module.short_name}")
    return module


def _bearer_settings(config: BrokerConfig, listener: str) -> BearerSettings:
    prefix = f"{LISTENER_PREFIX}{listener.lower()}."

    def value(name: str) -> Value:
        for key in (f"{prefix}{BEARER.lower()}.{name}", f"{prefix}{name}"):
            if (own := config.own_value(key)) is not None:
                return own
        return config.get(name)

    def integer(name: str) -> int:
        found = value(name)
        assert isinstance(found, int), f"{name} is a whole number"
        return max(0, found)

    url, issuer, audiences = value(KEY_SET_URL), value(ISSUER), value(AUDIENCE)
    missing = [
        f"{prefix}{BEARER.lower()}.{name}=..."
        for name, given in ((KEY_SET_URL, url), (ISSUER, issuer), (AUDIENCE, audiences))
        if not given
    ]
    if missing:
        raise WrongSetting(
            f"the listener {listener} offers {BEARER}, and nothing says which tokens prove a name; "
            f"add {' and '.join(missing)}",
            KEY_SET_URL,
            ENABLED,
        )
    if urlsplit(str(url)).scheme not in ("https", "http", "file"):
        raise WrongSetting(f"{KEY_SET_URL} is {url}: it is an https, http or file URL", KEY_SET_URL)
    if find_spec("jwt") is None:
        raise WrongSetting(
            f"the listener {listener} offers {BEARER}, which needs PyJWT: pip install "
            "'penstock[oauth]'",
            ENABLED,
        )
    return BearerSettings(
        str(url),
        str(issuer),
        audiences if isinstance(audiences, tuple) else (str(audiences),),
        str(value("sasl.oauthbearer.sub.claim.name")),
        integer("sasl.oauthbearer.clock.skew.seconds") * 1_000,
        integer("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        integer("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    )


def _lifetime_ms(config: BrokerConfig, listener: str, mechanism: str) -> int:
    own = config.own_value(f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{LIFETIME}")
    lifetime_ms = own if isinstance(own, int) else config.of_listener(listener, LIFETIME)
    return max(0, lifetime_ms)


def node_mechanism(config: BrokerConfig, listener: str, mechanism: str) -> Mechanism:
    """Return the mechanism with which this node logs in to listeners of this name on other nodes.
    Raise WrongSetting without a user and a password."""
    module = login_module(config, listener, mechanism)
    options = {} if module is None else module.options
    username, password = options.get("username", ""), options.get("password", "")
    if not username or not password:
        own = ("username", "password")
        raise WrongSetting(
            f"this node has no user to log in to the listener {listener} of other nodes by "
            f"{mechanism}; {jaas_advice(listener, mechanism, *own)}",
            jaas_key(listener, mechanism),
        )
    if mechanism == PLAIN:
        return SaslPlain(username, password)
    return Scram(mechanism, username, password)


def inter_broker_mechanism(config: BrokerConfig) -> Mechanism | None:
    """Return how this node logs in to other brokers; None where their listener has no SASL."""
    name = config.inter_broker_listener_name
    listens = any(each.name == name for each in config.broker_listeners)
    if not listens or config.security_protocols.get(name) not in SASL_PROTOCOLS:
        return None
    return node_mechanism(config, name, config.text(BETWEEN_BROKERS))


def controller_mechanism(config: BrokerConfig) -> Mechanism | None:
    """Return how this node logs in to controllers; None where their listener has no SASL."""
    names = config.controller_listener_names
    if not names or config.security_protocols.get(names[0]) not in SASL_PROTOCOLS:
        return None
    return node_mechanism(config, names[0], config.text(TO_CONTROLLERS))
