"""The epoch, its leader and this node's vote, as Kafka writes them into `quorum-state`.

Version 1 of the text belongs to kraft.version 1. Version 0 belongs to kraft.version 0, where the
voters come from the configuration. Reads no file: broker/metadata/quorum_files.py does.
"""

import json
from dataclasses import dataclass
from typing import Any

from penstock.model import ZERO_ID, id_from_text, id_to_text

NO_NODE = -1


@dataclass(frozen=True, slots=True)
class QuorumState:
    leader_epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: bytes = ZERO_ID


def parse_quorum_state(data: bytes) -> QuorumState:
    """Return what the file says. ValueError, KeyError or TypeError if it is damaged."""
    fields: dict[str, Any] = json.loads(data)
    return QuorumState(
        leader_epoch=int(fields["leaderEpoch"]),
        leader_id=int(fields["leaderId"]),
        voted_id=int(fields["votedId"]),
        voted_directory_id=id_from_text(fields.get("votedDirectoryId", id_to_text(ZERO_ID))),
    )


def format_quorum_state(
    state: QuorumState, voter_ids: tuple[int, ...], kraft_version: int
) -> bytes:
    fields: dict[str, Any] = {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch}
    if kraft_version == 0:
        fields = {"clusterId": "", **fields, "votedId": state.voted_id, "appliedOffset": 0}
        fields["currentVoters"] = [{"voterId": voter_id} for voter_id in voter_ids]
        fields["data_version"] = 0
    else:
        fields["votedId"] = state.voted_id
        fields["votedDirectoryId"] = id_to_text(state.voted_directory_id)
        fields["data_version"] = 1
    return json.dumps(fields, separators=(",", ":")).encode()
