"""The unprotected sides of a node: listeners without a login, or with passwords in clear, and the
port of metrics, where a network reaches them."""

from ipaddress import ip_address

from penstock.config.broker import BrokerConfig
from penstock.config.listeners import OWN_HOSTS, ListenerAddress

INSECURE, STOPS_START = "insecure.listeners", "refuse"
CLIENT_AUTH = "ssl.client.auth"
ADVICE = "Let it listen on 127.0.0.1, or speak SASL_SSL, or SSL with ssl.client.auth=required"


def exposed(config: BrokerConfig) -> tuple[str, ...]:
    """Return a sentence for each listener for clients that a network reaches unprotected, and for
    the port of metrics."""
    found = []
    for listener in config.broker_listeners:
        lack = None if _is_own(listener.host) else _lack_of(config, listener)
        if lack is not None:
            found.append(f"{listener} is open to the network {lack}")
    metrics = config.metrics_listener
    if metrics is not None and not _is_own(metrics.host):
        found.append(f"metrics.listener={metrics} is open to the network without a login")
    return tuple(found)


def _is_own(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in OWN_HOSTS


def _lack_of(config: BrokerConfig, listener: ListenerAddress) -> str | None:
    match listener.protocol:
        case "PLAINTEXT":
            return "without a login"
        case "SSL":
            own = config.of_listener_alone(listener.name, CLIENT_AUTH)
            is_required = (own or config.text(CLIENT_AUTH)) == "required"
            return None if is_required else "without a login"
        case "SASL_PLAINTEXT":
            from penstock.config.sasl import enabled_mechanisms  # only nodes with SASL load it
            from penstock.credentials.plain import PLAIN

            offered = enabled_mechanisms(config, listener.name)
            return "with passwords in clear" if PLAIN in offered else None
    return None
