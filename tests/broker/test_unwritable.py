"""What cannot be written, or must not be read, ends one connection: never the node."""

import pytest
from api_asking import Asker, asking
from delivery_cases import group_with_coordinator
from txn_asking import Txn

from penstock.broker.handlers import k11_join_group
from penstock.errors import UnsupportedAssignor
from penstock.testing.cluster import Cluster
from penstock.wire.frame import request_frame
from penstock.wire.messages import k11_join_group as k11
from penstock.wire.messages import k18_api_versions as k18
from penstock.wire.messages import k22_init_producer_id as k22
from penstock.wire.messages import k68_consumer_group_heartbeat as k68
from penstock.wire.primitives import STRING_BYTES_MAX, write_uvarint

pytest_plugins = ["api_fixtures"]

PLACEHOLDER = "PLACEHOLDER"
TOO_LONG = b"x" * (STRING_BYTES_MAX + 1)


def _frame_with(key: int, version: int, message: object, text: bytes) -> bytes:
    """A frame of a flexible version with another string in the place of PLACEHOLDER."""
    before, after = (bytearray(), bytearray())
    write_uvarint(before, len(PLACEHOLDER) + 1)
    write_uvarint(after, len(text) + 1)
    body = request_frame(key, version, 1, "asker", message)[4:]
    body = body.replace(before + PLACEHOLDER.encode(), after + text)
    return len(body).to_bytes(4, "big") + body


def _serves(asker: Asker) -> bool:
    return bool(asker.ask(k18.ApiVersionsRequest(), 0).api_keys)


def _join_request(group: str, metadata: bytes = b"m") -> k11.JoinGroupRequest:
    return k11.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="any",
        protocols=[k11.JoinGroupRequestProtocol(name="one", metadata=metadata)],
    )


def test_a_transactional_id_longer_than_a_string_may_be_closes_its_connection(
    penstock_cluster: Cluster, asker: Asker
) -> None:
    Txn(asker).init()  # its coordinator is there, and has no part in this
    message = k22.InitProducerIdRequest(transactional_id=PLACEHOLDER)
    with asking(penstock_cluster) as rude:
        rude.send_bytes(_frame_with(22, 5, message, TOO_LONG))
        assert rude.is_closed()
    assert _serves(asker)


def test_a_group_id_longer_than_a_string_may_be_closes_its_connection(
    penstock_cluster: Cluster, asker: Asker
) -> None:
    group_with_coordinator(asker)
    with asking(penstock_cluster) as rude:
        rude.send_bytes(_frame_with(11, 9, _join_request(PLACEHOLDER), TOO_LONG))
        assert rude.is_closed()
    assert _serves(asker)


def test_an_answer_that_cannot_be_written_closes_its_connection_however_late_it_comes(
    penstock_cluster: Cluster,
    asker: Asker,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = group_with_coordinator(asker)
    monkeypatch.setattr(k11_join_group, "NAME_BYTES_MAX", STRING_BYTES_MAX)
    # The member's id is made of this, and longer; it is told when the group has waited for more.
    client_id = "c" * STRING_BYTES_MAX
    with asking(penstock_cluster) as rude:
        rude.send_bytes(request_frame(11, 2, 1, client_id, _join_request(group)))
        assert rude.is_closed()
    assert _serves(asker)
    assert "JoinGroupResponse v2" in caplog.text


def test_an_error_that_quotes_a_long_name_has_room_in_its_answer(asker: Asker) -> None:
    refused = asker.ask(
        k68.ConsumerGroupHeartbeatRequest(
            group_id=group_with_coordinator(asker),
            member_id="m",
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=[],
            server_assignor="\0" * STRING_BYTES_MAX,  # four characters each, when it is quoted
            topic_partitions=[],
        ),
        1,
    )
    assert refused.error_code == UnsupportedAssignor.code
    assert refused.error_message.startswith("ServerAssignor \x00\x00")
