"""Checks of a node's place in its cluster: number, roles, and where the controllers are.

Each raises WrongSetting with a sentence that says what to set.
"""

from collections.abc import Callable, Sequence

from penstock.config.broker import BrokerConfig
from penstock.config.listeners import EVERY_INTERFACE
from penstock.config.values import WrongSetting

VOTERS, BOOTSTRAP = "controller.quorum.voters", "controller.quorum.bootstrap.servers"


def _check_node_id(config: BrokerConfig) -> None:
    node_id, broker_id = config.static.get("node.id"), config.static.get("broker.id")
    if node_id is None or broker_id is None:
        return
    if int(broker_id.text) < 0:  # the default -1 is no valid node id either
        raise WrongSetting(
            f"Invalid value {broker_id.text} for configuration broker.id: Value must be at least 0",
            "broker.id",
        )
    if int(node_id.text) != int(broker_id.text):
        raise WrongSetting(
            f"node.id is {node_id.text} ({node_id.where}) but broker.id is {broker_id.text} "
            f"({broker_id.where}): they are two names of one number; set only node.id"
        )


def _check_node_id_is_set(config: BrokerConfig) -> None:
    config.get("node.id")  # a number that cannot be read is reported by its key
    if "node.id" in config.static or config.sole_voter:
        return
    raise WrongSetting(
        "node.id is not set, and this node is one of several; give each node its own number, e.g. "
        "node.id=1",
        VOTERS,
        BOOTSTRAP,
        "process.roles",
    )


def _check_controllers_known(config: BrokerConfig) -> None:
    if not config.is_controller and not config.voters and not config.bootstrap_controllers:
        raise WrongSetting(
            "process.roles has no controller and nothing says where one is; set "
            "controller.quorum.bootstrap.servers=host:port",
            "process.roles",
        )


def _check_voters(config: BrokerConfig) -> None:
    ids = [voter.node_id for voter in config.voters]
    if not ids:
        return
    if config.is_controller and config.node_id not in ids:
        raise WrongSetting(
            f"process.roles has controller, but controller.quorum.voters has no node "
            f"{config.node_id}; it has {', '.join(map(str, ids))}",
            VOTERS,
        )
    if not config.is_controller and config.node_id in ids:
        raise WrongSetting(
            f"controller.quorum.voters has node {config.node_id}, but process.roles has no "
            "controller",
            VOTERS,
        )


def _check_controller_addresses(config: BrokerConfig) -> None:
    if config.sole_voter:
        return  # a node connects to no controller but itself
    for key, addresses in (
        (VOTERS, [voter.address for voter in config.voters]),
        (BOOTSTRAP, config.bootstrap_controllers),
    ):
        for address in addresses:
            if address.host in EVERY_INTERFACE or address.port == 0:
                raise WrongSetting(
                    f"{key} has {address}, to which no node can connect; name the controller's "
                    "host and port",
                    key,
                )


NODE_CHECKS: Sequence[Callable[[BrokerConfig], None]] = (_check_node_id,)
QUORUM_CHECKS: Sequence[Callable[[BrokerConfig], None]] = (
    _check_node_id_is_set,
    _check_controllers_known,
    _check_voters,
    _check_controller_addresses,
)
