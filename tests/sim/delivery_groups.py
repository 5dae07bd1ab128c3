"""A group as its coordinator describes it, against what its members believe."""

from collections.abc import Callable, Sequence

from delivery_actors import Actor, Run
from delivery_clients import Committer, Worker

from penstock.model import TopicPartition
from penstock.testing.sim.script import Ask, Script
from penstock.wire.messages import k15_describe_groups, k69_consumer_group_describe
from penstock.wire.records import consumer_protocol

DESCRIBE_GROUPS, CONSUMER_GROUP_DESCRIBE = 15, 69
GROUP_NOT_FOUND = 69
STABLE, EMPTY = "Stable", "Empty"
UNKNOWN = "Dead"  # so Kafka calls the state of a group that never was

Shares = dict[str, list[TopicPartition]]  # by member id


class Inspector(Actor):
    """Asks for one group until all is well with it; `problem` says what is not."""

    def __init__(
        self, run: Run, group: str, members: Callable[[], Sequence[Worker | Committer]]
    ) -> None:
        """`members` are those who live."""
        super().__init__(run, f"inspector-{group}")
        self._group = group
        self._members = members
        self.problem: str | None = f"{group} was not asked for"

    def script(self) -> Script[None]:
        while self.problem is not None:
            state, told = yield from self._consumer_group()
            self.problem = self._judge(state, told)
            yield self.pause(10.0, 200.0)

    def _judge(self, state: str, told: Shares) -> str | None:
        """Each member has what it believes to have, and there are no others: those who died are
        forgotten when their session has ended."""
        believed = {
            each.membership.member_id: sorted(each.membership.partitions)
            for each in self._members()
            if each.membership is not None and each.membership.epoch > 0
        }
        if {member_id: sorted(share) for member_id, share in told.items()} != believed:
            return f"{self._group} is {told}, its members believe {believed}"
        if state not in ((STABLE,) if believed else (EMPTY, UNKNOWN)):
            return f"{self._group} is {state}"
        return None

    def _consumer_group(self) -> Script[tuple[str, Shares]]:
        message = k69_consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[self._group])
        response = yield Ask(CONSUMER_GROUP_DESCRIBE, self.chance.choice((0, 1)), message)
        described = response.groups[0]
        if described.error_code == GROUP_NOT_FOUND:
            return (yield from self._classic_group())
        assert described.error_code == 0, f"{self._group}: error {described.error_code}"
        return described.group_state, {
            member.member_id: [
                TopicPartition(each.topic_name, partition)
                for each in member.assignment.topic_partitions
                for partition in each.partitions
            ]
            for member in described.members
        }

    def _classic_group(self) -> Script[tuple[str, Shares]]:
        message = k15_describe_groups.DescribeGroupsRequest(groups=[self._group])
        response = yield Ask(DESCRIBE_GROUPS, self.chance.choice((0, 4, 6)), message)
        described = response.groups[0]
        # It may have become one of the other protocol since it was asked for.
        assert described.error_code in (0, GROUP_NOT_FOUND), f"error {described.error_code}"
        shares: Shares = {}
        for member in described.members:
            share = consumer_protocol.ConsumerProtocolAssignment()
            if member.member_assignment:
                share = consumer_protocol.read_consumer_protocol(
                    consumer_protocol.ConsumerProtocolAssignment, member.member_assignment
                )
            shares[member.member_id] = [
                TopicPartition(each.topic, partition)
                for each in share.assigned_partitions
                for partition in each.partitions
            ]
        return described.group_state, shares
