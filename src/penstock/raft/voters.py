"""The voter set, and its records in the log and in snapshots."""

from dataclasses import dataclass

from penstock.wire.records.quorum import VotersRecord, VotersRecordVoter
from penstock.wire.structures import KRaftVersionFeature, Listener

KRAFT_VERSION_MAX = 1  # 0: voters from the configuration; 1: voters from the log (KIP-853)


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumVoter:
    node_id: int
    directory_id: bytes
    endpoints: tuple[VoterEndpoint, ...] = ()


Voters = tuple[QuorumVoter, ...]


def to_record(voters: Voters) -> VotersRecord:
    return VotersRecord(
        voters=[
            VotersRecordVoter(
                voter_id=voter.node_id,
                voter_directory_id=voter.directory_id,
                endpoints=[
                    Listener(name=each.listener, host=each.host, port=each.port)
                    for each in voter.endpoints
                ],
                kraft_version_feature=KRaftVersionFeature(
                    min_supported_version=0, max_supported_version=KRAFT_VERSION_MAX
                ),
            )
            for voter in voters
        ]
    )


def from_record(record: VotersRecord) -> Voters:
    return tuple(
        QuorumVoter(
            voter.voter_id,
            voter.voter_directory_id,
            tuple(VoterEndpoint(each.name, each.host, each.port) for each in voter.endpoints),
        )
        for voter in record.voters
    )
