"""Clusters with TLS for tests: settings of listeners, and clients that reach them."""

from tls_stores import PASSWORD, Stores

from penstock.client.transport.connection import Connection
from penstock.client.transport.security import Security
from penstock.testing import Cluster


def listener_settings(stores: Stores, **more: str) -> dict[str, str]:
    """Return settings of one listener with TLS; `ssl_client_auth="required"` adds to them."""
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": stores.path("node.pem"),
        "ssl.truststore.location": stores.path("ca.pem"),
        **{name.replace("_", "."): text for name, text in more.items()},
    }


def client_properties(stores: Stores, *, shows: bool = False) -> dict[str, str]:
    """Return a client's keys; `shows` gives it a certificate."""
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.location": stores.path("ca.pem"),
    }
    if shows:
        properties["ssl.keystore.location"] = stores.path("client.pem")
        properties["ssl.key.password"] = PASSWORD
    return properties


def connect(
    cluster: Cluster, stores: Stores, *, shows: bool = False, trusts: str = "ca.pem"
) -> Connection:
    properties = client_properties(stores, shows=shows)
    properties["ssl.truststore.location"] = stores.path(trusts)
    return Connection(*cluster.addresses["SSL"], security=Security.from_properties(properties))
