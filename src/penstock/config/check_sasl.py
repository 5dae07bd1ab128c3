"""Checks of SASL: the mechanisms of listeners, and the logins of nodes at each other.

Each raises WrongSetting with a sentence that says what to set.
"""

from collections.abc import Callable, Sequence

from penstock.config.broker import BrokerConfig
from penstock.config.listeners import SASL_PROTOCOLS
from penstock.config.sasl import (
    BETWEEN_BROKERS,
    ENABLED,
    LINK_MECHANISMS,
    SERVED_MECHANISMS,
    TO_CONTROLLERS,
    controller_mechanism,
    enabled_mechanisms,
    inter_broker_mechanism,
    listener_sasl,
)
from penstock.config.values import WrongSetting
from penstock.credentials.plain import PLAIN
from penstock.credentials.scram import HASHES

# Classes of Java, which cannot run here.
CLASSES = (
    "sasl.server.callback.handler.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
)
# The settings of OAUTHBEARER do the work of these classes of Kafka.
BUILT_IN = ("OAuthBearerValidatorCallbackHandler", "OAuthBearerLoginCallbackHandler")


def _check_listeners(config: BrokerConfig) -> None:
    problems: list[WrongSetting] = []
    for listener in config.listeners:
        if listener.protocol not in SASL_PROTOCOLS:
            continue
        try:
            listener_sasl(config, listener.name)
        except WrongSetting as problem:
            problems.append(problem)
    if problems:
        keys = [key for each in problems for key in each.keys]
        raise WrongSetting("\n".join(each.message for each in problems), *keys)


def _check_classes(config: BrokerConfig) -> None:
    if all(each.protocol not in SASL_PROTOCOLS for each in config.listeners):
        return
    for name, setting in config.static.items():
        known = setting.text.strip().rpartition(".")[2] in BUILT_IN
        if name.endswith(CLASSES) and setting.text.strip() and not known:
            raise WrongSetting(
                f"{name} names a class of Java, which cannot run here; remove it: "
                f"{', '.join(SERVED_MECHANISMS)} are built in",
                name,
            )


def _check_between_brokers(config: BrokerConfig) -> None:
    if not config.is_broker:
        return
    name = config.inter_broker_listener_name
    listener = next((each for each in config.broker_listeners if each.name == name), None)
    if listener is not None and listener.protocol in SASL_PROTOCOLS:
        mechanism = _link_mechanism(config, BETWEEN_BROKERS, LINK_MECHANISMS)
        _check_offered(config, name, mechanism, BETWEEN_BROKERS)
        inter_broker_mechanism(config)


def _check_to_controllers(config: BrokerConfig) -> None:
    names = config.controller_listener_names
    if not names or config.security_protocols.get(names[0]) not in SASL_PROTOCOLS:
        return
    if config.text(TO_CONTROLLERS) in HASHES:
        raise WrongSetting(
            f"{TO_CONTROLLERS} is {config.text(TO_CONTROLLERS)}: a controller knows the credentials"
            f" of SCRAM only once it has the metadata, so no quorum would form; set it to {PLAIN}",
            TO_CONTROLLERS,
        )
    mechanism = _link_mechanism(config, TO_CONTROLLERS, (PLAIN,))
    if config.is_controller:
        _check_offered(config, names[0], mechanism, TO_CONTROLLERS)
    controller_mechanism(config)


def _link_mechanism(config: BrokerConfig, key: str, allowed: Sequence[str]) -> str:
    mechanism = config.text(key)
    if mechanism not in allowed:
        default = "" if key in config.static else ", Kafka's default"
        raise WrongSetting(
            f"{key} is {mechanism}{default}; set it to "
            f"{allowed[0] if len(allowed) == 1 else 'one of ' + ', '.join(allowed)}",
            key,
        )
    return mechanism


def _check_offered(config: BrokerConfig, listener: str, mechanism: str, key: str) -> None:
    offered = enabled_mechanisms(config, listener)
    if mechanism not in offered:
        raise WrongSetting(
            f"{key} is {mechanism}, but the listener {listener} offers {', '.join(offered)}; add "
            f"it to {ENABLED}",
            key,
            ENABLED,
        )


SASL_CHECKS: Sequence[Callable[[BrokerConfig], None]] = (
    _check_listeners,
    _check_classes,
    _check_between_brokers,
    _check_to_controllers,
)
