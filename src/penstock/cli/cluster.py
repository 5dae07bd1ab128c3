"""`penstock cluster describe|features|elect-leaders`"""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.arguments.partitions import TopicsOption, chosen_partitions, parse_topics
from penstock.cli.arguments.shared_options import on_cluster
from penstock.cli.connection.access import access_of, connect
from penstock.cli.connection.known_cluster import NO_CONTROLLER, describe_nodes
from penstock.cli.terminal.output import (
    Format,
    Json,
    Row,
    counted,
    format_of,
    note,
    print_rows,
    print_value,
    report,
)
from penstock.errors import ElectionNotNeeded, KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client.values import Broker, PartitionDescription, TopicDescription

app = typer.Typer(help="The cluster as a whole.", no_args_is_help=True)

BROKER_COLUMNS = ("broker", "host", "port", "rack", "fenced", "controller", "leads", "replicas")


@app.command()
@on_cluster
def describe(context: typer.Context) -> None:
    """Describe the cluster: its id, its brokers, and whether its partitions are well."""
    with connect(access_of(context)) as admin:
        cluster = describe_nodes(admin)
        topics = admin.list_topics()
    partitions = [each for topic in topics for each in topic.partitions]
    health = health_of(topics)
    brokers = [broker_row(each, cluster.controller_id, partitions) for each in cluster.brokers]
    form = format_of(context)
    if form is not Format.TABLE:
        shown: Row = {
            "cluster_id": cluster.cluster_id,
            "controller": _known(cluster.controller_id),
            "topics": len(topics),
            "partitions": len(partitions),
            **health,
            "brokers": [*brokers],
        }
        print_value(form, shown)
        return
    print(
        f"cluster {cluster.cluster_id}, {counted(len(cluster.brokers), 'broker')}, "
        f"{counted(len(topics), 'topic')}, {counted(len(partitions), 'partition')}"
    )
    if _known(cluster.controller_id) is None:
        print("no active controller is known: most of the controllers must run")
    else:
        print(f"node {cluster.controller_id} is the active controller")
    for name, places in health.items():
        if isinstance(places, list) and places:
            print(f"{name.replace('_', ' ')}: {', '.join(map(str, places))}")
    if not any(health.values()):
        print("all partitions have a leader, and all replicas are in sync")
    print_rows(Format.TABLE, BROKER_COLUMNS, brokers)


def _known(controller_id: int) -> int | None:
    return None if controller_id == NO_CONTROLLER else controller_id


def health_of(topics: "Sequence[TopicDescription]") -> Row:
    """Return partitions without a leader, and partitions with replicas out of sync."""
    leaderless: list[Json] = []
    lagging: list[Json] = []
    for topic in topics:
        for each in topic.partitions:
            if each.leader < 0:
                leaderless.append(f"{topic.name}-{each.partition}")
            elif len(each.in_sync) < len(each.replicas):
                lagging.append(f"{topic.name}-{each.partition}")
    return {"without_leader": leaderless, "under_replicated": lagging}


def broker_row(
    broker: "Broker", controller_id: int, partitions: "Sequence[PartitionDescription]"
) -> Row:
    return {
        "broker": broker.node_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "fenced": broker.fenced,
        "controller": None if _known(controller_id) is None else broker.node_id == controller_id,
        "leads": sum(each.leader == broker.node_id for each in partitions),
        "replicas": sum(broker.node_id in each.replicas for each in partitions),
    }


@app.command()
@on_cluster
def features(context: typer.Context) -> None:
    """Show which features are in force, and what the brokers could do."""
    with connect(access_of(context)) as admin:
        levels = admin.features.describe()
    rows: list[Row] = []
    for name in sorted({*levels.supported, *levels.finalized}):
        supported, finalized = levels.supported.get(name), levels.finalized.get(name)
        rows.append(
            {
                "feature": name,
                "level": None if finalized is None else finalized.highest,
                "lowest": None if supported is None else supported.lowest,
                "highest": None if supported is None else supported.highest,
            }
        )
    print_rows(format_of(context), ("feature", "level", "lowest", "highest"), rows)


@app.command("elect-leaders")
@on_cluster
def elect_leaders(
    context: typer.Context,
    *,
    topics: TopicsOption = [],  # noqa: B006 - typer only reads the default
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Let a replica lead that may have lost records."),
    ] = False,
) -> None:
    """Let the first replica of each partition lead again, where it can."""
    from penstock.client.admin.cluster_values import Election

    choice = parse_topics(topics)
    with connect(access_of(context)) as admin:
        chosen = chosen_partitions(admin, choice)
        election = Election.UNCLEAN if unclean else Election.PREFERRED
        results = admin.elect_leaders(chosen or None, election)
    needless = [each for each, error in results.items() if isinstance(error, ElectionNotNeeded)]
    failed: dict[str, KafkaError] = {
        str(each): error
        for each, error in results.items()
        if error is not None and each not in needless
    }
    done = [str(each) for each, error in results.items() if error is None]
    if needless or not results:
        note(
            "the others are led by the replica that they should be led by"
            if done
            else "all are led by the replica that they should be led by"
        )
    report(format_of(context), done, failed, "elected")
