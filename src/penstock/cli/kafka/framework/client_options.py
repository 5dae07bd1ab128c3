"""Client settings from `--bootstrap-server`, `--command-config` and `--...-property`.

Files and keys are Kafka's. A file that cannot be read or a rejected key ends the command with a
message that names it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.cli.kafka.framework.options import GivenOptions, Option
from penstock.cli.kafka.framework.runner import CommandRejected, UsageRejected, say
from penstock.client.admin.blocking import Admin
from penstock.client.settings import ConsumerSettings, ProducerSettings, SettingRefused
from penstock.client.settings.keys_rdkafka import ALIASES
from penstock.client.settings.row import KeyHandling
from penstock.client.settings.table import ROWS, Client, is_for_serdes
from penstock.config.properties import PropertiesError, parse_properties

if TYPE_CHECKING:
    from penstock.config import Loaded

S = TypeVar("S", ProducerSettings, ConsumerSettings)

BOOTSTRAP_SERVER = Option(
    "bootstrap-server", "REQUIRED: a server of the cluster, or several.", "String: host:port,..."
)
CONTROLLER_HELP = "Rejected: a broker passes requests on to the controller."
BOOTSTRAP_CONTROLLER = Option("bootstrap-controller", CONTROLLER_HELP, "String: host:port,...")
COMMAND_CONFIG = Option(
    "command-config", "A properties file for the client, in Kafka's names.", "String: file"
)

BOOTSTRAP_KEY = "bootstrap.servers"
AS_BYTES = "this command leaves keys and values as the bytes that they are"
# Keys that Penstock's clients implement, and why a command on librdkafka does not use them.
WITHOUT = {
    "key.serializer": AS_BYTES,
    "value.serializer": AS_BYTES,
    "key.deserializer": AS_BYTES,
    "value.deserializer": AS_BYTES,
    "interceptor.classes": "this command has no use for interceptors",
    "max.poll.records": "this command takes records one by one",
    "default.api.timeout.ms": "this command makes no call that it would limit",
    "handler.timeout.ms": "this command has no handlers",
    "revoke.timeout.ms": "this command has no handlers",
}


def read_file(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise CommandRejected(f"{path}: {reason}") from None
    except UnicodeDecodeError:
        raise CommandRejected(f"{path}: is no text") from None


def read_properties(path: str | None) -> dict[str, str]:
    """Return the keys of a properties file; none without a path."""
    if path is None:
        return {}
    try:
        return {entry.key: entry.value for entry in parse_properties(read_file(path))}
    except PropertiesError as problem:
        raise CommandRejected(f"{path} {problem}") from None


def key_values(texts: Sequence[str]) -> dict[str, str]:
    """Return `key=value` texts as a dict; a key alone has an empty value, as in Kafka's tools."""
    pairs = (text.partition("=") for text in texts)
    return {key: value for key, _, value in pairs}


def open_admin(bootstrap: str, given: Mapping[str, str]) -> Admin:
    """Return an admin client that is not connected yet; bootstrap.servers of a file is ignored."""
    settings = {key: value for key, value in given.items() if key != BOOTSTRAP_KEY}
    try:
        return Admin(settings, bootstrap=bootstrap)
    except SettingRefused as rejected:
        raise CommandRejected(str(rejected)) from None
    except ValueError as problem:
        raise CommandRejected(f"--bootstrap-server: {problem}") from None


def admin_of(given: GivenOptions, bootstrap: str = BOOTSTRAP_SERVER.name) -> Admin:
    """Return the admin client for the options of a command."""
    return open_admin(given.required(bootstrap), read_properties(given.text(COMMAND_CONFIG.name)))


def admin_of_either(given: GivenOptions) -> Admin:
    """Return the admin client of a command that also has --bootstrap-controller."""
    server, controller = given.has("bootstrap-server"), given.has("bootstrap-controller")
    if server and controller:
        raise UsageRejected(
            "Only one of --bootstrap-server or --bootstrap-controller can be specified"
        )
    if not server and not controller:
        raise UsageRejected("You must specify either --bootstrap-controller or --bootstrap-server.")
    reject_controllers(controller)
    return admin_of(given)


def reject_controllers(said: object) -> None:
    """Raise CommandRejected for --bootstrap-controller: brokers forward to the controller."""
    if said:
        raise CommandRejected(
            "--bootstrap-controller is not taken here: say --bootstrap-server, and the broker "
            "passes it on to the controller"
        )


def settings_of(
    make: Callable[..., S],
    configured: Mapping[str, str],
    bootstrap: str,
    handled_keys: Sequence[str],
) -> S:
    """Return the settings that `make` reads; print a note for each without effect.

    `handled_keys` are keys that the command implements itself.
    """
    given = {key: value for key, value in configured.items() if key != BOOTSTRAP_KEY}
    try:
        settings = make(given, bootstrap=bootstrap)
    except SettingRefused as rejected:
        raise CommandRejected(f"--command-property: {rejected}") from None
    _note_unused(settings, given, handled_keys)
    return settings


def _note_unused(
    settings: ProducerSettings | ConsumerSettings,
    configured: Mapping[str, str],
    handled_keys: Sequence[str],
) -> None:
    """Print a note for each setting that commands on librdkafka do not use."""
    if settings.namespace:
        raise CommandRejected(
            "namespace is not taken by Kafka's commands: say names as the cluster has them, or "
            "use `penstock produce` and `penstock consume`"
        )
    client = Client.PRODUCER if isinstance(settings, ProducerSettings) else Client.CONSUMER
    unused = dict(settings.ignored)
    for said in configured:
        key = ALIASES.get(said, said)
        row = ROWS[client].get(key)
        if row is None and is_for_serdes(key):
            unused[key] = AS_BYTES
        elif row is not None and row.fate is KeyHandling.OURS and key not in handled_keys:
            unused[key] = WITHOUT.get(key, "this command does without")
    for key, why in unused.items():
        say(f"note: {key} has no effect here: {why}")


def override(configured: dict[str, str], values: Mapping[str, str], whose: str) -> None:
    """Set values of the command in `configured`; print a note for each overridden value."""
    for key, value in values.items():
        if configured.get(key, value) != value:
            say(f"note: {key}={configured[key]} has no effect here: {whose} says {value}")
        configured[key] = value


def report_errors_once(also: Callable[[Any], None] | None = None) -> dict[str, Any]:
    """Return settings with which librdkafka reports each kind of error once.

    `also` is called with every error.
    """
    reported: set[str] = set()

    def report(error: Any) -> None:
        text = error.str()
        if error.name() not in reported:
            reported.add(error.name())
            say(f"WARN {text}")
        if also is not None:
            also(error)

    return {"log_level": 0, "error_cb": report}


def load_server(path: str, overrides: Sequence[str] = ()) -> "Loaded":
    """Return the configuration of a node; `overrides` are `key=value`."""
    from penstock.config.load import ConfigRejected, ConfigText, load

    try:
        loaded = load([ConfigText(path, read_file(path))], os.environ, overrides)
    except ConfigRejected as rejected:
        for warning in rejected.warnings:
            say(f"warning: {warning}")
        listed = "\n".join(f"  {problem}" for problem in rejected.problems)
        raise CommandRejected(f"{path} is no configuration to start with:\n{listed}") from None
    for warning in loaded.warnings:
        say(f"warning: {warning}")
    return loaded
