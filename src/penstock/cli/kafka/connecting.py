"""From `--bootstrap-server`, `--command-config` and `--...-property` to a client's settings.

The files and the names in them are Kafka's. What cannot be read or is refused ends the command with
a sentence that names the file or the key.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.cli.kafka.options import Given, Option
from penstock.cli.kafka.running import CommandRefused, UsageRefused, say
from penstock.client.admin.blocking import Admin
from penstock.client.settings import ConsumerSettings, ProducerSettings, SettingRefused
from penstock.client.settings.keys_rdkafka import ALIASES
from penstock.client.settings.row import Fate
from penstock.client.settings.table import ROWS, Client, is_for_serdes
from penstock.config.properties import PropertiesError, parse_properties

BOOTSTRAP_SERVER = Option(
    "bootstrap-server", "REQUIRED: a server of the cluster, or several.", "String: host:port,..."
)
BOOTSTRAP_CONTROLLER = Option(
    "bootstrap-controller", "A controller of the cluster, or several.", "String: host:port,..."
)
COMMAND_CONFIG = Option(
    "command-config", "A properties file for the client, in Kafka's names.", "String: file"
)

BOOTSTRAP_KEY = "bootstrap.servers"
AS_BYTES = "this command leaves keys and values as the bytes that they are"
# Keys that the clients of this package see to themselves, and why a command has no use for one.
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
        raise CommandRefused(f"{path}: {reason}") from None
    except UnicodeDecodeError:
        raise CommandRefused(f"{path}: is no text") from None


def read_properties(path: str | None) -> dict[str, str]:
    """The keys of a file; none without one."""
    if path is None:
        return {}
    try:
        return {entry.key: entry.value for entry in parse_properties(read_file(path))}
    except PropertiesError as problem:
        raise CommandRefused(f"{path} {problem}") from None


def key_values(texts: Sequence[str]) -> dict[str, str]:
    """`key=value` texts; a key alone has an empty value, as Kafka's tools have it."""
    pairs = (text.partition("=") for text in texts)
    return {key: value for key, _, value in pairs}


def open_admin(bootstrap: str, given: Mapping[str, str]) -> Admin:
    """An admin client; nothing is connected to yet. A file's own servers do not count."""
    settings = {key: value for key, value in given.items() if key != BOOTSTRAP_KEY}
    try:
        return Admin(settings, bootstrap=bootstrap)
    except SettingRefused as refused:
        raise CommandRefused(str(refused)) from None
    except ValueError as problem:
        raise CommandRefused(f"--bootstrap-server: {problem}") from None


def admin_of(given: Given, bootstrap: str = BOOTSTRAP_SERVER.name) -> Admin:
    """The admin client that a command's own options ask for."""
    return open_admin(given.required(bootstrap), read_properties(given.text(COMMAND_CONFIG.name)))


def admin_of_either(given: Given) -> Admin:
    """For commands that could be asked to go to a controller."""
    server, controller = given.has("bootstrap-server"), given.has("bootstrap-controller")
    if server and controller:
        raise UsageRefused(
            "Only one of --bootstrap-server or --bootstrap-controller can be specified"
        )
    if not server and not controller:
        raise UsageRefused("You must specify either --bootstrap-controller or --bootstrap-server.")
    refuse_controllers(controller)
    return admin_of(given)


def refuse_controllers(said: object) -> None:
    """Brokers pass on to the controller what is the controller's: there is no other way in."""
    if said:
        raise CommandRefused(
            "--bootstrap-controller is not taken here: say --bootstrap-server, and the broker "
            "passes it on to the controller"
        )


@contextmanager
def refusing(where: str) -> Iterator[None]:
    """Settings that are refused inside end the command."""
    try:
        yield
    except SettingRefused as refused:
        raise CommandRefused(f"{where}: {refused}") from None


def tell_unused(
    settings: ProducerSettings | ConsumerSettings, told: Mapping[str, str], *heeded: str
) -> None:
    """What these commands, which go straight to librdkafka, do not make use of.

    `told` is what was said; `heeded` are the keys of it that the command sees to itself.
    """
    if settings.namespace:
        raise CommandRefused(
            "namespace is not taken by Kafka's commands: say names as the cluster has them, or "
            "use `penstock produce` and `penstock consume`"
        )
    client = Client.PRODUCER if isinstance(settings, ProducerSettings) else Client.CONSUMER
    unused = dict(settings.ignored)
    for said in told:
        key = ALIASES.get(said, said)
        row = ROWS[client].get(key)
        if row is None and is_for_serdes(key):
            unused[key] = AS_BYTES
        elif row is not None and row.fate is Fate.OURS and key not in heeded:
            unused[key] = WITHOUT.get(key, "this command does without")
    for key, why in unused.items():
        say(f"note: {key} has no effect here: {why}")


def overridden(told: dict[str, str], values: Mapping[str, str], whose: str) -> None:
    """What the command decides, whatever a file or a property says; a difference is told."""
    for key, value in values.items():
        if told.get(key, value) != value:
            say(f"note: {key}={told[key]} has no effect here: {whose} says {value}")
        told[key] = value


def told_once(also: Callable[[Any], None] | None = None) -> dict[str, Any]:
    """Settings with which librdkafka tells each kind of trouble once, and not line by line.

    `also` is called with each of them.
    """
    told: set[str] = set()

    def tell(error: Any) -> None:
        text = error.str()
        if error.name() not in told:
            told.add(error.name())
            say(f"WARN {text}")
        if also is not None:
            also(error)

    return {"log_level": 0, "error_cb": tell}
