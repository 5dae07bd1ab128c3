"""First voters of a quorum: the texts that name them, and the snapshot that holds them."""

import base64

import pytest

from penstock.broker.metadata.bootstrap_files import FIRST_SNAPSHOT, write_quorum_snapshot_now
from penstock.broker.metadata.initial_controllers import (
    InitialControllersInvalid,
    parse_initial_controllers,
)
from penstock.broker.metadata.quorum_files import METADATA_DIRECTORY
from penstock.model import id_from_text
from penstock.raft.snapshot import parse_snapshot
from penstock.raft.voters import QuorumVoter, VoterEndpoint
from penstock.testing.sim.disk import SimDisk

ONE, TWO, THREE = "JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA"
TEXT = f"3@c.example:9093:{THREE},1@127.0.0.1:19093:{ONE},2@localhost:19193:{TWO}"

# Written by Apache Kafka 4.3.1's `kafka-storage format --initial-controllers` with this text.
KAFKAS_SNAPSHOT = base64.b64decode(
    "AAAAAAAAAAAAAAEBAAAAAAK1CZx/ACAAAAACAAABofChUV0AAAGh8KFRXf//////////////////AAAAAyoAAAAIAAAA"
    "AxYAAAAAAaHwoVFMAAAeAAACCAAAAAUKAAAAAQAA0AIAAAQIAAAABroCAAAEAAAAASRF2Omqs0GPt9j+U0rc2hYCC0NP"
    "TlRST0xMRVIKMTI3LjAuMC4xSpUAAAAAAQAAAAAAAjLw8c1ZnEbGk89921LkVOgCC0NPTlRST0xMRVIKbG9jYWxob3N0"
    "SvkAAAAAAQAAAAAAA9O0eWph5kd9lQwOox5Bm0wCC0NPTlRST0xMRVIKYy5leGFtcGxlI4UAAAAAAQAAAAAAAAAAAAAA"
    "AwAAAD8AAAAAAv0mo8sAIAAAAAAAAAGh8KFRZAAAAaHwoVFk//////////////////8AAAABGgAAAAgAAAAEBgAAAAA="
)
AFTER_TIMES, FOOTER_BYTES = 85, 75  # the KRaftVersion record begins; the footer's batch


def parse(text: str) -> tuple[QuorumVoter, ...]:
    return parse_initial_controllers(text, "CONTROLLER")


def test_voters_are_ordered_by_their_number() -> None:
    assert parse(TEXT) == (
        QuorumVoter(1, id_from_text(ONE), (VoterEndpoint("CONTROLLER", "127.0.0.1", 19093),)),
        QuorumVoter(2, id_from_text(TWO), (VoterEndpoint("CONTROLLER", "localhost", 19193),)),
        QuorumVoter(3, id_from_text(THREE), (VoterEndpoint("CONTROLLER", "c.example", 9093),)),
    )


def test_the_snapshot_holds_what_kafkas_holds() -> None:
    disk = SimDisk(1)
    write_quorum_snapshot_now(disk, parse(TEXT), now_ms=1)
    ours = disk.files()[f"{METADATA_DIRECTORY}/{FIRST_SNAPSHOT.file_name}"]
    assert len(ours) == len(KAFKAS_SNAPSHOT)
    assert ours[AFTER_TIMES:-FOOTER_BYTES] == KAFKAS_SNAPSHOT[AFTER_TIMES:-FOOTER_BYTES]
    theirs = parse_snapshot(KAFKAS_SNAPSHOT, FIRST_SNAPSHOT)
    assert parse_snapshot(ours, FIRST_SNAPSHOT)._replace(timestamp_ms=theirs.timestamp_ms) == theirs


def test_an_address_may_be_ipv6() -> None:
    (voter,) = parse(f"1@[::1]:9093:{ONE}")
    assert voter.endpoints == (VoterEndpoint("CONTROLLER", "::1", 9093),)


def test_spaces_and_empty_parts_are_passed_over() -> None:
    assert parse(f" 1@a:1:{ONE}, 2@b:2:{TWO},") == parse(f"1@a:1:{ONE},2@b:2:{TWO}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "No voters given."),
        (",", "No voters given."),
        ("x", "No @ found in dynamic voter string."),
        (f"@h:1:{ONE}", "Invalid @ at beginning of dynamic voter string."),
        (f"x@h:1:{ONE}", "Failed to parse node id in dynamic voter string."),
        (f"-1@h:1:{ONE}", "Invalid negative node id -1 in dynamic voter string."),
        ("1@", "No hostname found after node id."),
        (f"1@:9:{ONE}", "No hostname found after node id."),
        ("1@h", "No colon following hostname could be found."),
        (f"1@[h:9:{ONE}", "Hostname began with left bracket, but no right bracket was found."),
        (f"1@[h]9:{ONE}", "Port section must start with a colon."),
        ("1@h:9", "No colon following port could be found."),
        (f"1@h:x:{ONE}", "Failed to parse port in dynamic voter string."),
        (f"1@h:70000:{ONE}", "Invalid port 70000 in dynamic voter string."),
        ("1@h:9:JEXY6", "Failed to parse directory ID in dynamic voter string."),
        ("1@h:9:AAAAAAAAAAAAAAAAAAAAAQ", "The directory ID in dynamic voter string is reserved."),
        (f"1@h:9:{ONE},1@h:9:{TWO}", "Node id 1 was specified more than once."),
        (f"1@h:9:{ONE},2@h:9:{ONE}", f"Directory id {ONE} was specified more than once."),
    ],
)
def test_a_text_that_names_no_voters_says_why(text: str, reason: str) -> None:
    with pytest.raises(InitialControllersInvalid) as caught:
        parse(text)
    assert str(caught.value).startswith(f"{reason} --initial-controllers has ")
    assert "each controller is id@host:port:directory" in str(caught.value)
