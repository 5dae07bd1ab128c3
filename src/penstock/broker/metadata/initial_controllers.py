"""First voters of a quorum, as `kafka-storage format --initial-controllers` names them.

Each is `id@host:port:directory`. The reasons against a text begin with Apache Kafka's sentences.
"""

from penstock.broker.metadata.storage_format import StorageError
from penstock.config.listeners import PORT_MAX
from penstock.model import id_from_text, id_to_text
from penstock.raft.voters import QuorumVoter, VoterEndpoint, Voters

# Directory ids below this number have meanings of their own in Kafka (KIP-858).
RESERVED_DIRECTORIES = 100
FORM = "id@host:port:directory, e.g. 1@localhost:9093:JEXY6aqzQY-32P5TStzaFg"


class InitialControllersInvalid(StorageError):
    """The text names no voters."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"{reason} --initial-controllers has {text!r}; each controller is {FORM}.")


def parse_initial_controllers(text: str, listener: str) -> Voters:
    """Return the voters, ordered by node id; `listener` is the name of their listeners."""
    voters = [_parse_voter(each.strip(), listener) for each in text.strip().split(",") if each]
    if not voters:
        raise InitialControllersInvalid(text, "No voters given.")
    nodes: set[int] = set()
    directories: set[bytes] = set()
    for voter in voters:
        if voter.node_id in nodes:
            reason = f"Node id {voter.node_id} was specified more than once."
            raise InitialControllersInvalid(text, reason)
        if voter.directory_id in directories:
            name = id_to_text(voter.directory_id)
            reason = f"Directory id {name} was specified more than once."
            raise InitialControllersInvalid(text, reason)
        nodes.add(voter.node_id)
        directories.add(voter.directory_id)
    return tuple(sorted(voters, key=lambda voter: voter.node_id))


def _parse_voter(text: str, listener: str) -> QuorumVoter:
    def invalid(reason: str) -> InitialControllersInvalid:
        return InitialControllersInvalid(text, reason)

    node, at, rest = text.partition("@")
    if not at:
        raise invalid("No @ found in dynamic voter string.")
    if not node:
        raise invalid("Invalid @ at beginning of dynamic voter string.")
    node_id = _whole_number(node)
    if node_id is None:
        raise invalid("Failed to parse node id in dynamic voter string.")
    if node_id < 0:
        raise invalid(f"Invalid negative node id {node_id} in dynamic voter string.")
    if not rest:
        raise invalid("No hostname found after node id.")
    if rest.startswith("["):
        host, closed, rest = rest[1:].partition("]")
        if not closed:
            raise invalid("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise invalid("Port section must start with a colon.")
        rest = rest[1:]
    else:
        host, colon, rest = rest.partition(":")
        if not colon:
            raise invalid("No colon following hostname could be found.")
    if not host:
        raise invalid("No hostname found after node id.")
    digits, colon, directory = rest.partition(":")
    if not colon:
        raise invalid("No colon following port could be found.")
    port = _whole_number(digits)
    if port is None:
        raise invalid("Failed to parse port in dynamic voter string.")
    if not 0 <= port <= PORT_MAX:
        raise invalid(f"Invalid port {port} in dynamic voter string.")
    try:
        directory_id = id_from_text(directory)
    except ValueError:
        raise invalid("Failed to parse directory ID in dynamic voter string.") from None
    if int.from_bytes(directory_id) < RESERVED_DIRECTORIES:
        raise invalid("The directory ID in dynamic voter string is reserved.")
    return QuorumVoter(node_id, directory_id, (VoterEndpoint(listener, host, port),))


def _whole_number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and digits.isascii() else None
