"""Keys of replicas: a node id, and the metadata directory if that is known."""

from typing import NamedTuple

from penstock.model import ZERO_ID


class ReplicaKey(NamedTuple):
    """A replica of the metadata log. ZERO_ID stands for an unknown directory (kraft.version 0)."""

    node_id: int
    directory_id: bytes = ZERO_ID

    def names(self, other: "ReplicaKey") -> bool:
        """Return whether this key stands for `other`; a key without directory names by id."""
        if self.node_id != other.node_id:
            return False
        return self.directory_id in (ZERO_ID, other.directory_id)
