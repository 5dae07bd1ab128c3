"""Where the voter set says that the controller of this node is to be found."""

from penstock.config.broker import BrokerConfig
from penstock.raft.voters import VoterEndpoint
from penstock.world import Network

ENDPOINT_DEFAULT = VoterEndpoint("CONTROLLER", "localhost", 0)


def controller_endpoint(config: BrokerConfig, network: Network) -> VoterEndpoint:
    """Of its first listener; an empty host means all addresses, so the machine's name is told."""
    for listener in config.controller_listeners:
        return VoterEndpoint(listener.name, listener.host or network.host_name(), listener.port)
    return ENDPOINT_DEFAULT
