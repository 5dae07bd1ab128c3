"""Keys of admin clients, which speak the protocol themselves: little is there to be tuned."""

from penstock.client.settings.keys_connection import (
    BOOTSTRAP,
    CLIENT_ID,
    CONFIG_PROVIDERS,
    METRICS_KEYS,
    NAMESPACE,
)
from penstock.client.settings.row import (
    BOOLEAN,
    NO_EFFECT,
    OURS,
    REFUSED,
    TEXT,
    WHOLE,
    Fate,
    Row,
)

_SOCKETS = "The admin client leaves sockets to the system"
_RETRIES = "It tries again until default.api.timeout.ms is over"
_FRESH = "It asks for metadata whenever it needs some"
_ONE = "Each call connects to where it has to, and begins with bootstrap.servers"

KEYS = (
    BOOTSTRAP._replace(fate=Fate.OURS),
    CLIENT_ID._replace(fate=Fate.OURS),
    NAMESPACE,
    Row(
        "bootstrap.controllers",
        TEXT,
        REFUSED,
        "The admin client goes by way of brokers: say bootstrap.servers",
        harmless=("",),
    ),
    Row("client.dns.lookup", TEXT, NO_EFFECT, "All addresses of a name are tried"),
    CONFIG_PROVIDERS,
    Row("connections.max.idle.ms", WHOLE, NO_EFFECT, _ONE),
    Row(
        "default.api.timeout.ms",
        WHOLE,
        OURS,
        "How long a call may take, with everything that is tried again",
        "60000",
        low=0,
    ),
    Row("enable.metrics.push", BOOLEAN, NO_EFFECT, "The admin client pushes no metrics"),
    Row("metadata.max.age.ms", WHOLE, NO_EFFECT, _FRESH, low=0),
    Row("metadata.recovery.strategy", TEXT, NO_EFFECT, _ONE),
    Row("metadata.recovery.rebootstrap.trigger.ms", WHOLE, NO_EFFECT, _ONE, low=0),
    *METRICS_KEYS,
    Row("receive.buffer.bytes", WHOLE, NO_EFFECT, _SOCKETS, low=-1),
    Row("send.buffer.bytes", WHOLE, NO_EFFECT, _SOCKETS, low=-1),
    Row("reconnect.backoff.ms", WHOLE, NO_EFFECT, _RETRIES, low=0),
    Row("reconnect.backoff.max.ms", WHOLE, NO_EFFECT, _RETRIES, low=0),
    Row(
        "request.timeout.ms",
        WHOLE,
        OURS,
        "How long one answer is waited for",
        "30000",
        low=0,
    ),
    Row("retries", WHOLE, NO_EFFECT, _RETRIES, low=0),
    Row("retry.backoff.ms", WHOLE, NO_EFFECT, _RETRIES, low=0),
    Row("retry.backoff.max.ms", WHOLE, NO_EFFECT, _RETRIES, low=0),
    Row("socket.connection.setup.timeout.ms", WHOLE, NO_EFFECT, _SOCKETS),
    Row("socket.connection.setup.timeout.max.ms", WHOLE, NO_EFFECT, _SOCKETS),
)
