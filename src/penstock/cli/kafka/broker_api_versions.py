"""kafka-broker-api-versions: which versions of each API every broker serves."""

from collections.abc import Iterator, Sequence

from penstock.cli.kafka.connecting import BOOTSTRAP_SERVER, COMMAND_CONFIG, admin_of
from penstock.cli.kafka.options import Given
from penstock.cli.kafka.running import OK, Command, message_of, print_failure, require, run_command
from penstock.client.admin.cluster_values import BrokerApis, LevelRange
from penstock.client.values import Broker
from penstock.wire.apis import APIS


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(COMMAND, arguments)


def _run(given: Given) -> int:
    require(given, "bootstrap-server")
    with admin_of(given) as admin:
        for broker, told in admin.api_versions().items():
            if isinstance(told, BrokerApis):
                print(f"{_named(broker)} -> (\n\t" + ",\n\t".join(_lines(told)) + "\n)")
            else:
                print(f"{_named(broker)} -> ERROR: {message_of(told)}")
    return OK


COMMAND = Command(
    "kafka-broker-api-versions",
    "Which versions of each API every broker serves.",
    (COMMAND_CONFIG, BOOTSTRAP_SERVER),
    _run,
    print_failure,
    usage_on_refusal=False,
)


def _named(broker: Broker) -> str:
    rack = "null" if broker.rack is None else broker.rack
    return f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {rack} isFenced: false)"


def _lines(told: BrokerApis) -> Iterator[str]:
    """What the broker serves, and what it does not of what clients may ask."""
    for key in sorted({*told.versions, *(key for key, api in APIS.items() if _for_clients(key))}):
        name = APIS[key].name if key in APIS else "UNKNOWN"
        versions = told.versions.get(key)
        shown = "UNSUPPORTED" if versions is None else _shown(key, versions)
        yield f"{name}({key}): {shown}"


def _for_clients(key: int) -> bool:
    return "broker" in APIS[key].listeners


def _shown(key: int, versions: LevelRange) -> str:
    low, high = versions
    text = str(low) if low == high else f"{low} to {high}"
    if key not in APIS:
        return text
    first, last = APIS[key].versions
    if last < low:
        return f"{text} [unusable: node too new]"
    if high < first:
        return f"{text} [unusable: node too old]"
    return f"{text} [usable: {min(last, high)}]"
