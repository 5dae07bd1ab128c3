"""kafka-broker-api-versions: the API versions that each broker serves."""

from collections.abc import Iterator

from penstock.cli.kafka.framework.client_options import BOOTSTRAP_SERVER, COMMAND_CONFIG, admin_of
from penstock.cli.kafka.framework.options import GivenOptions
from penstock.cli.kafka.framework.runner import command, message_of, require
from penstock.client.admin.cluster_values import BrokerApis, LevelRange
from penstock.client.values import Broker
from penstock.wire.apis import APIS, OWN_FROM


@command(
    "kafka-broker-api-versions",
    "Which versions of each API every broker serves.",
    (COMMAND_CONFIG, BOOTSTRAP_SERVER),
    usage_on_error=False,
)
def main(given: GivenOptions) -> None:
    require(given, "bootstrap-server")
    with admin_of(given) as admin:
        for broker, answered in admin.api_versions().items():
            if isinstance(answered, BrokerApis):
                print(f"{_named(broker)} -> (\n\t" + ",\n\t".join(_lines(answered)) + "\n)")
            else:
                print(f"{_named(broker)} -> ERROR: {message_of(answered)}")


def _named(broker: Broker) -> str:
    rack = "null" if broker.rack is None else broker.rack
    return f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {rack} isFenced: false)"


def _lines(answered: BrokerApis) -> Iterator[str]:
    """Yield a line per API that the broker serves or that clients may use."""
    for key in sorted(
        {*answered.versions, *(key for key, api in APIS.items() if _for_clients(key))}
    ):
        name = APIS[key].name if key in APIS else "UNKNOWN"
        versions = answered.versions.get(key)
        shown = "UNSUPPORTED" if versions is None else _shown(key, versions)
        yield f"{name}({key}): {shown}"


def _for_clients(key: int) -> bool:
    return "broker" in APIS[key].listeners and key < OWN_FROM


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
