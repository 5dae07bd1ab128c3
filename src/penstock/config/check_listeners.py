"""Checks of the addresses of a node: for clients, for other brokers, and for controllers.

Each raises WrongSetting with a sentence that says what to set.
"""

from collections.abc import Callable, Sequence

from penstock.config.broker import BrokerConfig
from penstock.config.listeners import (
    EVERY_INTERFACE,
    PROTOCOL_MAP,
    check_ports,
    parse_listeners,
)
from penstock.config.values import WrongSetting

NAMES = "controller.listener.names"
INTER_BROKER, INTER_BROKER_PROTOCOL = "inter.broker.listener.name", "security.inter.broker.protocol"


def _check_listeners(config: BrokerConfig) -> None:
    if not config.listeners:
        raise WrongSetting("listeners is empty; e.g. listeners=PLAINTEXT://:9092", "listeners")


def _check_advertised_texts(config: BrokerConfig) -> None:
    # Parsing is the check: broken listeners must not hide a problem here.
    key = "advertised.listeners"
    parse_listeners(key, config.texts(key), config.security_protocols)


def _check_ports(config: BrokerConfig) -> None:
    check_ports(config.listeners)


def _check_broker_listeners(config: BrokerConfig) -> None:
    if config.is_broker and not config.broker_listeners:
        raise WrongSetting(
            "process.roles has broker, but every one of listeners is in controller.listener.names;"
            " add one for clients, e.g. PLAINTEXT://:9092",
            "listeners",
        )
    if not config.is_broker and config.controller_listeners and config.broker_listeners:
        names = ", ".join(each.name for each in config.broker_listeners)
        raise WrongSetting(
            f"process.roles has no broker, but listeners has {names}, which is not in "
            "controller.listener.names; remove it from listeners",
            "listeners",
        )


def _check_controller_listeners(config: BrokerConfig) -> None:
    if config.is_controller:
        _check_own_controller_listeners(config)
        return
    if config.controller_listeners:
        names = ", ".join(each.name for each in config.controller_listeners)
        raise WrongSetting(
            f"process.roles has no controller, but listeners has {names}, which is in "
            "controller.listener.names; remove it from listeners",
            "listeners",
        )
    if not config.controller_listener_names:
        raise WrongSetting(
            "controller.listener.names is not set, so nothing says how to talk to the controllers;"
            " set it as on the controllers, e.g. controller.listener.names=CONTROLLER",
            "process.roles",
        )


def _check_own_controller_listeners(config: BrokerConfig) -> None:
    listening = {each.name for each in config.controller_listeners}
    if not listening and config.sole_voter and config.is_broker:
        return
    if not config.controller_listener_names:
        raise WrongSetting(
            "process.roles has controller and other nodes take part, but no listener is for them; "
            "set controller.listener.names=CONTROLLER and add CONTROLLER://:9093 to listeners",
            "controller.quorum.voters",
            "controller.quorum.bootstrap.servers",
            "process.roles",
        )
    missing = [each for each in config.controller_listener_names if each not in listening]
    if missing:
        names = ", ".join(config.controller_listener_names)
        raise WrongSetting(
            f"controller.listener.names is {names}, but listeners has none of the name "
            f"{missing[0]}; add {missing[0]}://:9093 to listeners",
            "listeners",
            NAMES,
        )


def _check_controller_protocols(config: BrokerConfig) -> None:
    """Reject controllers elsewhere without a protocol; own listeners have a check already."""
    for name in config.controller_listener_names:
        protocol = config.security_protocols.get(name)
        if protocol is None and not config.is_controller:
            raise WrongSetting(
                f"controller.listener.names has {name}, and nothing says which protocol it speaks;"
                f" add {name}:PLAINTEXT to {PROTOCOL_MAP}",
                PROTOCOL_MAP,
                NAMES,
            )


def _check_advertised(config: BrokerConfig) -> None:
    names = {listener.name for listener in config.listeners}
    configured = bool(config.texts("advertised.listeners"))
    problems: list[str] = []
    for listener in config.advertised_listeners:
        if listener.name not in names:
            # Kafka passes over the controllers' address on a broker, since files are shared.
            if listener.name not in config.controller_listener_names or config.is_controller:
                problems.append(
                    f"advertised.listeners has {listener.name}, which is not one of listeners"
                )
        elif listener.host in EVERY_INTERFACE and (configured or config.is_broker):
            problems.append(
                f"clients cannot connect to {listener.host}; set advertised.listeners="
                f"{listener.name}://<a name or address of this machine>:{listener.port}"
            )
    advertised = {listener.name for listener in config.advertised_listeners}
    problems += (
        f"advertised.listeners leaves out {listener.name}, which is one of listeners"
        for listener in config.broker_listeners
        if listener.name not in advertised
    )
    if problems:
        raise WrongSetting("\n".join(problems), "advertised.listeners", "listeners")


def _check_inter_broker_listener(config: BrokerConfig) -> None:
    if not config.is_broker:
        return
    chosen = config.get(INTER_BROKER) is not None
    if chosen and INTER_BROKER_PROTOCOL in config.static:
        raise WrongSetting(
            f"{INTER_BROKER} and {INTER_BROKER_PROTOCOL} are two ways to name one listener; set "
            "only the first",
            INTER_BROKER,
        )
    protocol = config.text(INTER_BROKER_PROTOCOL)
    names = [each.name for each in config.broker_listeners]
    if chosen and config.inter_broker_listener_name not in names:
        raise WrongSetting(
            f"{INTER_BROKER} is {config.inter_broker_listener_name}, which is not one of the "
            f"listeners for brokers ({', '.join(names)})",
            INTER_BROKER,
        )
    # Several brokers must agree on one name, so none is chosen for them.
    if not chosen and names and protocol not in names and not config.sole_voter:
        raise WrongSetting(
            f"no listener is for other brokers: none is called {protocol}; set {INTER_BROKER} to "
            f"one of {', '.join(names)}, the same on all brokers",
            "listeners",
        )


LISTENER_CHECKS: Sequence[Callable[[BrokerConfig], None]] = (
    _check_listeners,
    _check_advertised_texts,
    _check_ports,
    _check_broker_listeners,
    _check_controller_listeners,
    _check_controller_protocols,
    _check_advertised,
    _check_inter_broker_listener,
)
