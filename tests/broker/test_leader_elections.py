"""Elections of leaders are counted by the images that follow one another."""

import logging
from dataclasses import replace

import pytest

from penstock.broker.metadata.leader_elections import LISTED_MAX, LeaderElections
from penstock.controller.delta import Delta
from penstock.controller.image import Image, PartitionImage, Topic

TOPIC_ID = b"t" * 16


def image_of(*partitions: PartitionImage, topic_id: bytes = TOPIC_ID) -> Image:
    topic = Topic("t", topic_id, {each.partition_id: each for each in partitions})
    return Image(topics={"t": topic})


def state(
    leader: int,
    leader_epoch: int,
    isr: tuple[int, ...] = (1, 2),
    eligible: tuple[int, ...] = (),
    number: int = 0,
) -> PartitionImage:
    return PartitionImage(
        number, (1, 2, 3), isr, leader, leader_epoch, leader_epoch, eligible_leaders=eligible
    )


def counts(before: Image, after: Image, *, is_active: bool = True) -> tuple[int, int, int]:
    elections = LeaderElections()
    delta = Delta(changed_partitions=(("t", tuple(after.topics["t"].partitions)),))
    elections.follow(before, after, delta, is_active=is_active)
    return elections.all, elections.from_eligible, elections.unclean


@pytest.mark.parametrize(
    ("after", "counted"),
    [
        pytest.param(state(2, 6), (1, 0, 0), id="of a replica in sync"),
        pytest.param(state(4, 6), (1, 1, 0), id="of an eligible replica"),
        pytest.param(state(3, 6), (1, 0, 1), id="of any other replica"),
        pytest.param(state(1, 6), (1, 0, 0), id="of the same leader, in a new epoch"),
        pytest.param(state(1, 5, isr=(1,)), (0, 0, 0), id="no election: a smaller set"),
        pytest.param(state(-1, 6), (0, 0, 0), id="no election: a lost leader"),
    ],
)
def test_an_election_is_counted_by_its_kind(
    after: PartitionImage, counted: tuple[int, int, int]
) -> None:
    assert counts(image_of(state(1, 5, eligible=(4,))), image_of(after)) == counted


def test_the_first_leader_of_a_topic_is_no_election() -> None:
    assert counts(Image(), image_of(state(3, 0))) == (0, 0, 0)


def test_the_first_leader_of_a_topic_with_a_former_name_is_no_election() -> None:
    made_again = image_of(state(3, 6), topic_id=b"u" * 16)
    assert counts(image_of(state(1, 5)), made_again) == (0, 0, 0)


def test_the_active_controller_warns_of_unclean_elections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    many = range(LISTED_MAX + 2)
    before = image_of(*(state(-1, 5, isr=(), number=each) for each in many))
    after = image_of(*(state(3, 6, isr=(3,), number=each) for each in many))
    with caplog.at_level(logging.WARNING):
        counts(before, after)
    (line,) = caplog.messages
    assert line.startswith("unclean election of t-0 (leader 3), t-1 (leader 3), ")
    assert " and 2 more: " in line


def test_the_warning_tells_when_an_unclean_election_loses_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        counts(image_of(state(-1, 5, isr=())), image_of(state(3, 6, isr=(3,))))
    assert "Nothing is lost if this is the last leader, its process was killed" in caplog.text


def test_other_nodes_do_not_repeat_the_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        counts(image_of(state(-1, 5, isr=())), image_of(state(3, 6)), is_active=False)
    assert caplog.messages == []


def test_the_return_of_the_only_replica_is_no_reason_for_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    alone = replace(state(-1, 5, isr=()), replicas=(3,))
    with caplog.at_level(logging.WARNING):
        counts(image_of(alone), image_of(replace(state(3, 6, isr=(3,)), replicas=(3,))))
    assert caplog.messages == []
