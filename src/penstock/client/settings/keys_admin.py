"""Keys of admin clients, which speak the protocol themselves."""

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
    KeyHandling,
    SettingRow,
)

_SOCKETS = "The admin client leaves sockets to the system"
_RETRIES = "It tries again until default.api.timeout.ms is over"
_FRESH = "It asks for metadata whenever it needs some"
_ONE = "Each call connects to where it has to, and begins with bootstrap.servers"

KEYS = (
    BOOTSTRAP._replace(fate=KeyHandling.OURS),
    CLIENT_ID._replace(fate=KeyHandling.OURS),
    NAMESPACE,
    SettingRow(
        "bootstrap.controllers",
        TEXT,
        REFUSED,
        "The admin client goes by way of brokers: say bootstrap.servers",
        harmless=("",),
    ),
    SettingRow("client.dns.lookup", TEXT, NO_EFFECT, "All addresses of a name are tried"),
    CONFIG_PROVIDERS,
    SettingRow("connections.max.idle.ms", WHOLE, NO_EFFECT, _ONE),
    SettingRow(
        "default.api.timeout.ms",
        WHOLE,
        OURS,
        "How long a call may take, with everything that is tried again",
        "60000",
        low=0,
    ),
    SettingRow("enable.metrics.push", BOOLEAN, NO_EFFECT, "The admin client pushes no metrics"),
    SettingRow("metadata.max.age.ms", WHOLE, NO_EFFECT, _FRESH, low=0),
    SettingRow("metadata.recovery.strategy", TEXT, NO_EFFECT, _ONE),
    SettingRow("metadata.recovery.rebootstrap.trigger.ms", WHOLE, NO_EFFECT, _ONE, low=0),
    *METRICS_KEYS,
    SettingRow("receive.buffer.bytes", WHOLE, NO_EFFECT, _SOCKETS, low=-1),
    SettingRow("send.buffer.bytes", WHOLE, NO_EFFECT, _SOCKETS, low=-1),
    SettingRow("reconnect.backoff.ms", WHOLE, NO_EFFECT, _RETRIES, low=0),
    SettingRow("reconnect.backoff.max.ms", WHOLE, NO_EFFECT, _RETRIES, low=0),
    SettingRow(
        "request.timeout.ms",
        WHOLE,
        OURS,
        "How long one answer is waited for",
        "30000",
        low=0,
    ),
    SettingRow("retries", WHOLE, NO_EFFECT, _RETRIES, low=0),
    SettingRow("retry.backoff.ms", WHOLE, NO_EFFECT, _RETRIES, low=0),
    SettingRow("retry.backoff.max.ms", WHOLE, NO_EFFECT, _RETRIES, low=0),
    SettingRow("socket.connection.setup.timeout.ms", WHOLE, NO_EFFECT, _SOCKETS),
    SettingRow("socket.connection.setup.timeout.max.ms", WHOLE, NO_EFFECT, _SOCKETS),
)
