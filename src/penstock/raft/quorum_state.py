"""The file `quorum-state`: the epoch, its leader and this node's vote, as Kafka writes it.

Version 1 belongs to kraft.version 1. Version 0 is what kraft.version 0 uses, where the voters
come from the configuration.
"""

import json
from dataclasses import dataclass
from typing import Any

from penstock.model import ZERO_ID, id_from_text, id_to_text
from penstock.raft.errors import QuorumFilesCorrupt
from penstock.world import Disk

QUORUM_STATE = "quorum-state"
NOBODY = -1


@dataclass(frozen=True, slots=True)
class QuorumState:
    leader_epoch: int = 0
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: bytes = ZERO_ID


def load_quorum_state(disk: Disk, directory: str) -> QuorumState | None:
    """What the file says; None if there is none, or a kill left it without content."""
    path = f"{directory}/{QUORUM_STATE}"
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        data = file.read_now(0, file.size)
    finally:
        file.close()
    if not data.strip(b"\0"):
        return None
    try:
        fields: dict[str, Any] = json.loads(data)
        return QuorumState(
            leader_epoch=int(fields["leaderEpoch"]),
            leader_id=int(fields["leaderId"]),
            voted_id=int(fields["votedId"]),
            voted_directory_id=id_from_text(fields.get("votedDirectoryId", id_to_text(ZERO_ID))),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise QuorumFilesCorrupt(
            f"{disk.root}/{path} is damaged ({error}). With one voter nothing is lost by deleting "
            "it: the epoch is found in the log again."
        ) from error


def store_quorum_state_now(
    disk: Disk, directory: str, state: QuorumState, voter_ids: tuple[int, ...], kraft_version: int
) -> None:
    """Durable when this returns: an epoch must never be used twice."""
    fields: dict[str, Any] = {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch}
    if kraft_version == 0:
        fields = {"clusterId": "", **fields, "votedId": state.voted_id, "appliedOffset": 0}
        fields["currentVoters"] = [{"voterId": voter_id} for voter_id in voter_ids]
        fields["data_version"] = 0
    else:
        fields["votedId"] = state.voted_id
        fields["votedDirectoryId"] = id_to_text(state.voted_directory_id)
        fields["data_version"] = 1
    text = json.dumps(fields, separators=(",", ":"))
    disk.replace_now(f"{directory}/{QUORUM_STATE}", text.encode())
