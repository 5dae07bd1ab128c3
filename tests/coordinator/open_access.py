"""The access of a broker without an authorizer."""

from penstock.broker.access import AccessControl
from penstock.config.broker import BrokerConfig
from penstock.controller.image import Image
from penstock.testing.sim.world import Simulation, SimWorld


def without_authorizer() -> AccessControl:
    """Return access that allows everything."""
    return AccessControl(SimWorld(Simulation(1)), BrokerConfig.of({"log.dirs": "data"}), Image())
