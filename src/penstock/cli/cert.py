"""`penstock cert reload`"""

from typing import Annotated

import typer

from penstock.cli.arguments.number_limits import INT32_MAX
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import access_of, connect
from penstock.cli.connection.known_cluster import describe_nodes
from penstock.cli.terminal.output import CommandFailed, format_of, report
from penstock.client.values import (
    ConfigChange,
    ConfigValue,
    Operation,
    Resource,
    ResourceType,
)
from penstock.errors import KafkaError

app = typer.Typer(help="The certificates of the nodes.", no_args_is_help=True)

LOCATION = "ssl.keystore.location"
DYNAMIC = 2  # the source of a value that was set for one broker


@app.command()
@on_cluster
def reload(
    context: typer.Context,
    brokers: Annotated[
        list[int] | None,
        typer.Argument(metavar="[ID]...", max=INT32_MAX, help="Default: all brokers."),
    ] = None,
) -> None:
    """Read the key stores and trust stores of brokers again. A bad store changes nothing."""
    done: list[str] = []
    failed: dict[str, KafkaError] = {}
    with connect(access_of(context)) as admin:
        known = [each.node_id for each in describe_nodes(admin).brokers if not each.fenced]
        for node_id in brokers or known:
            if node_id not in known:
                alive = ", ".join(map(str, known))
                raise CommandFailed(f"there is no broker {node_id} that is alive; there is {alive}")
            resource = Resource(ResourceType.BROKER, str(node_id))
            found = admin.describe_configs([resource])[resource]
            problem: KafkaError | None
            if isinstance(found, KafkaError):
                problem = found
            else:
                problem = admin.alter_configs({resource: [_unchanged(found)]})[resource]
            if problem is None:
                done.append(f"broker {node_id}")
            else:
                failed[f"broker {node_id}"] = problem
    report(format_of(context), done, failed, "reloaded")


def _unchanged(values: list[ConfigValue]) -> ConfigChange:
    """Return a change that changes nothing: a broker reads its stores again with each."""
    for each in values:
        if each.name == LOCATION and each.source == DYNAMIC:
            return ConfigChange(LOCATION, Operation.SET, each.value)
    return ConfigChange(LOCATION, Operation.DELETE)
