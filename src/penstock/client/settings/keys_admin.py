"""Keys of admin clients, which do not use librdkafka."""

from penstock.client.settings.keys_connection import (
    BOOTSTRAP,
    CLIENT_ID,
    CONFIG_PROVIDERS,
    METRICS_KEYS,
    NAMESPACE,
)
from penstock.client.settings.row import (
    BOOLEAN,
    TEXT,
    WHOLE,
    KeyHandling,
    no_effect,
    ours,
    refused,
)

_SOCKETS = "The admin client leaves sockets to the system"
_RETRIES = "It tries again until default.api.timeout.ms is over"
_FRESH = "It asks for metadata whenever it needs some"
_ONE = "Each call connects to where it has to, and begins with bootstrap.servers"

KEYS = (
    BOOTSTRAP._replace(fate=KeyHandling.OURS),
    CLIENT_ID._replace(fate=KeyHandling.OURS),
    NAMESPACE,
    refused("bootstrap.controllers", TEXT, harmless=("",)).described(
        "The admin client goes by way of brokers: say bootstrap.servers"
    ),
    no_effect("client.dns.lookup", TEXT).described("All addresses of a name are tried"),
    CONFIG_PROVIDERS,
    no_effect("connections.max.idle.ms", WHOLE).described(_ONE),
    ours("default.api.timeout.ms", WHOLE, "60000", low=0).described(
        "How long a call may take, with everything that is tried again"
    ),
    no_effect("enable.metrics.push", BOOLEAN).described("The admin client pushes no metrics"),
    no_effect("metadata.max.age.ms", WHOLE, low=0).described(_FRESH),
    no_effect("metadata.recovery.strategy", TEXT).described(_ONE),
    no_effect("metadata.recovery.rebootstrap.trigger.ms", WHOLE, low=0).described(_ONE),
    *METRICS_KEYS,
    no_effect("receive.buffer.bytes", WHOLE, low=-1).described(_SOCKETS),
    no_effect("send.buffer.bytes", WHOLE, low=-1).described(_SOCKETS),
    no_effect("reconnect.backoff.ms", WHOLE, low=0).described(_RETRIES),
    no_effect("reconnect.backoff.max.ms", WHOLE, low=0).described(_RETRIES),
    ours("request.timeout.ms", WHOLE, "30000", low=0).described(
        "How long one answer is waited for"
    ),
    no_effect("retries", WHOLE, low=0).described(_RETRIES),
    no_effect("retry.backoff.ms", WHOLE, low=0).described(_RETRIES),
    no_effect("retry.backoff.max.ms", WHOLE, low=0).described(_RETRIES),
    no_effect("socket.connection.setup.timeout.ms", WHOLE).described(_SOCKETS),
    no_effect("socket.connection.setup.timeout.max.ms", WHOLE).described(_SOCKETS),
)
