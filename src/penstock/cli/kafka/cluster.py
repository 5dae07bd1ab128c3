"""kafka-cluster: prints the cluster id and the nodes, and unregisters brokers."""

import argparse
from collections.abc import Sequence

from penstock.cli.kafka.framework.client_options import (
    CONTROLLER_HELP,
    open_admin,
    read_properties,
    reject_controllers,
)
from penstock.cli.kafka.framework.runner import print_message
from penstock.cli.kafka.framework.subcommands import VerbParser, run_verbs
from penstock.client.admin.blocking import Admin
from penstock.errors import UnsupportedVersion

WIDTH_MIN = 10


def main(arguments: Sequence[str] | None = None) -> int:
    return run_verbs(_parser(), _run, print_message, arguments)


def _parser() -> VerbParser:
    parser = VerbParser(prog="kafka-cluster", description="The cluster's id and its nodes.")
    verbs = parser.add_subparsers(dest="command", required=True, parser_class=VerbParser)
    cluster_id = verbs.add_parser("cluster-id", help="print the cluster's id")
    unregister = verbs.add_parser("unregister", help="forget a broker that is gone for good")
    endpoints = verbs.add_parser("list-endpoints", help="print where the nodes are")
    for each in (cluster_id, unregister, endpoints):
        where = each.add_mutually_exclusive_group(required=True)
        where.add_argument("--bootstrap-server", "-b", help="a server of the cluster, or several")
        where.add_argument("--bootstrap-controller", "-C", help=CONTROLLER_HELP)
        each.add_argument("--config", "-c", help="as --command-config, older")
        each.add_argument("--command-config", help="a properties file for the client")
    unregister.add_argument("--id", "-i", type=int, required=True, help="the broker's id")
    endpoints.add_argument(
        "--include-fenced-brokers", action="store_true", help="those that do not serve too"
    )
    return parser


def _run(parsed: argparse.Namespace) -> None:
    properties = read_properties(parsed.config or parsed.command_config)
    reject_controllers(parsed.bootstrap_controller)
    with open_admin(parsed.bootstrap_server, properties) as admin:
        match parsed.command:
            case "cluster-id":
                print(f"Cluster ID: {admin.describe_cluster().cluster_id}")
            case "unregister":
                _unregister(admin, parsed.id)
            case _:
                _print_brokers(admin, include_fenced=parsed.include_fenced_brokers)


def _unregister(admin: Admin, broker: int) -> None:
    try:
        admin.unregister_broker(broker)
    except UnsupportedVersion:
        print("The target cluster does not support the broker unregistration API.")
    else:
        print(f"Broker {broker} is no longer registered.")


def _print_brokers(admin: Admin, *, include_fenced: bool) -> None:
    """Print the brokers; fenced ones on request."""
    brokers = admin.describe_cluster(include_fenced=include_fenced).brokers
    rows = [("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")]
    for each in brokers:
        state = "fenced" if each.fenced else "unfenced"
        place = (str(each.node_id), each.host, str(each.port))
        rows.append((*place, each.rack or "null", state, "broker"))
    host = max(len(row[1]) for row in rows)
    rack = max(WIDTH_MIN, *(len(row[3]) for row in rows))
    for row in rows:
        print(
            f"{row[0]:<10} {row[1]:<{host}} {row[2]:<10} {row[3]:<{rack}} {row[4]:<10} {row[5]:<15}"
        )
