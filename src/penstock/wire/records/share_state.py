"""Records of `__share_group_state`: whole states of a share partition and changes to them."""

from penstock.wire.primitives import ZERO_UUID, Int32, Int64, Uuid
from penstock.wire.schema import field, record
from penstock.wire.structures import StateBatch


@record(key=0, versions="0")
class ShareSnapshotKey:
    group_id: str = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


@record(key=0, versions="0", flexible=0)
class ShareSnapshotValue:
    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    create_timestamp: Int64 = 0
    write_timestamp: Int64 = 0
    state_batches: list[StateBatch] = field(default_factory=list)


@record(key=1, versions="0")
class ShareUpdateKey:
    group_id: str = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


@record(key=1, versions="0", flexible=0)
class ShareUpdateValue:
    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    state_batches: list[StateBatch] = field(default_factory=list)
