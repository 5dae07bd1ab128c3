"""The controller of a node over the metadata log, and the links that its quorum uses."""

from collections.abc import Callable

from penstock.broker.links.quorum_transport import FIRST_BOOTSTRAP_ID
from penstock.broker.metadata.quorum_controller import QuorumController, SnapshotPolicy
from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.broker.metadata.storage_format import MetaProperties, controller_endpoint
from penstock.broker.metadata.stored_log import open_stored_log
from penstock.config.broker import BrokerConfig
from penstock.controller.config_rules import TableRules
from penstock.controller.settings import ControllerSettings
from penstock.model import ZERO_ID
from penstock.raft.protocols import QuorumTransport
from penstock.raft.quorum import QuorumSettings
from penstock.raft.replica import ReplicaSettings
from penstock.raft.voters import QuorumVoter, VoterEndpoint
from penstock.world import Disk, DiskFailed, World

FETCH_WAIT_MS_MAX = 500  # as in Kafka


def make_metadata(
    world: World,
    config: BrokerConfig,
    disk: Disk,
    properties: MetaProperties,
    transport: QuorumTransport,
    failed: Callable[[DiskFailed], None],
    unreadable: Callable[[str], None],
) -> QuorumController:
    """Make the controller over the metadata log on `disk`; its `start` opens the log."""
    return QuorumController(
        disk,
        world.clock,
        world.timers,
        world.entropy,
        me=QuorumVoter(
            config.node_id,
            properties.directory_id,
            (controller_endpoint(config, world.network),),
        ),
        quorum=_quorum_settings(config, properties, world.network.host_name()),
        transport=transport,
        controller=ControllerSettings(
            cluster_id=properties.cluster_id,
            node_id=config.node_id,
            num_partitions=config.integer("num.partitions"),
            default_replication_factor=config.integer("default.replication.factor"),
            delete_topic_enable=config.boolean("delete.topic.enable"),
            min_insync_replicas=config.integer("min.insync.replicas"),
            unclean_leader_election_enable=config.boolean("unclean.leader.election.enable"),
            preferred_leader_check_ms=_preferred_leader_check_ms(config),
            unclean_leader_check_ms=config.integer("unclean.leader.election.interval.ms"),
            broker_session_timeout_ms=config.integer("broker.session.timeout.ms"),
        ),
        rules=TableRules(config),
        snapshots=SnapshotPolicy(
            bytes_between_max=config.integer("metadata.log.max.record.bytes.between.snapshots"),
            interval_ms=config.integer("metadata.log.max.snapshot.interval.ms"),
        ),
        open_log=open_stored_log(
            disk,
            METADATA_DIRECTORY,
            world.clock,
            config.integer("metadata.log.segment.bytes"),
        ),
        failed=failed,
        unreadable=unreadable,
    )


def _preferred_leader_check_ms(config: BrokerConfig) -> int | None:
    if not config.boolean("auto.leader.rebalance.enable"):
        return None
    return config.integer("leader.imbalance.check.interval.seconds") * 1000


def _fetch_wait_ms(config: BrokerConfig) -> int:
    """Return how long a leader holds a fetch: its answer comes before the shorter timeouts."""
    timeouts = ("controller.quorum.fetch.timeout.ms", "controller.quorum.request.timeout.ms")
    return min(FETCH_WAIT_MS_MAX, *(config.integer(each) // 2 for each in timeouts))


def _bootstrap_ids(config: BrokerConfig, machine: str) -> tuple[int, ...]:
    """Return the ids of the bootstrap addresses, but for this node's own."""
    return tuple(
        FIRST_BOOTSTRAP_ID - index
        for index, address in enumerate(config.bootstrap_controllers)
        if not config.is_own_controller(address, machine)
    )


def _quorum_settings(
    config: BrokerConfig, properties: MetaProperties, machine: str
) -> QuorumSettings:
    listener = config.controller_listener_names[0] if config.controller_listener_names else ""
    return QuorumSettings(
        ReplicaSettings(
            cluster_id=properties.cluster_id,
            bootstrap_ids=_bootstrap_ids(config, machine),
            may_become_voter=config.is_controller,
            election_timeout_ms=config.integer("controller.quorum.election.timeout.ms"),
            fetch_timeout_ms=config.integer("controller.quorum.fetch.timeout.ms"),
            election_backoff_ms_max=config.integer("controller.quorum.election.backoff.max.ms"),
            request_timeout_ms=config.integer("controller.quorum.request.timeout.ms"),
            fetch_bytes_max=config.integer("controller.quorum.fetch.max.bytes"),
            fetch_snapshot_bytes_max=config.integer("controller.quorum.fetch.snapshot.max.bytes"),
            retry_backoff_ms=config.integer("controller.quorum.retry.backoff.ms"),
            fetch_wait_ms_max=_fetch_wait_ms(config),
        ),
        voters=tuple(
            QuorumVoter(
                voter.node_id,
                ZERO_ID,
                (VoterEndpoint(listener, voter.address.host, voter.address.port),),
            )
            for voter in config.voters
        ),
        is_sole=config.sole_voter,
    )
