"""Elections that the controller begins by itself: of preferred leaders, and of unclean ones.

A check looks at all partitions at an interval. If leaders are to be elected, rounds of limited size
follow shortly after each other. Only rounds write records: if the log rejects them, the next check
tries again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from penstock.controller.elections import Electorate, LeaderElection, change_partition
from penstock.controller.image import NO_LEADER, Image, PartitionImage, Topic
from penstock.controller.settings import ControllerSettings
from penstock.effects import Outcome, SetTimer
from penstock.wire.records.metadata import PartitionChangeRecord

ELECTIONS_PER_ROUND_MAX = 250  # as many as the loop encodes and replays in one turn
ROUND_PAUSE_MS = 10.0  # other requests to the controller go between two rounds


@dataclass(frozen=True, slots=True)
class LeaderCheck:
    """An event of the controller: time to look for leaders to elect."""

    election: LeaderElection


@dataclass(frozen=True, slots=True)
class ElectionRound:
    """An event of the controller: time to elect some of these leaders."""

    election: LeaderElection


class PeriodicElections:
    """Decides about elections without a request; holds no state but what it was given."""

    def __init__(self, image: Image, settings: ControllerSettings) -> None:
        self._image = image
        self._settings = settings

    def timers(self) -> list[SetTimer]:
        """Return the timers of an active controller: one for each kind of check."""
        kinds = (LeaderElection.PREFERRED, LeaderElection.UNCLEAN)
        return [timer for kind in kinds for timer in self.check_timer(kind)]

    def check_timer(self, election: LeaderElection) -> list[SetTimer]:
        """Return the timer of the next check; none if the node does without."""
        is_preferred = election is LeaderElection.PREFERRED
        settings = self._settings
        interval_ms = (
            settings.preferred_leader_check_ms if is_preferred else settings.unclean_leader_check_ms
        )
        if interval_ms is None:
            return []
        return [SetTimer(f"check for {election.value} leaders", interval_ms, LeaderCheck(election))]

    def check(self, event: LeaderCheck) -> Outcome:
        """Begin rounds if there is a leader to elect. The next check comes in any case."""
        timers = self.check_timer(event.election)
        electorate = Electorate(self._image, self._settings, election=event.election)
        if next(_candidates(electorate), None) is not None:
            timers.append(_round_timer(event.election))
        return Outcome(timers=timers)

    def elect(self, event: ElectionRound) -> Outcome:
        """Elect some leaders. A further round follows a full one."""
        electorate = Electorate(self._image, self._settings, election=event.election)
        records = list(islice(_elections(electorate), ELECTIONS_PER_ROUND_MAX))
        is_full = len(records) == ELECTIONS_PER_ROUND_MAX
        return Outcome(records, timers=[_round_timer(event.election)] if is_full else ())


def _round_timer(election: LeaderElection) -> SetTimer:
    return SetTimer(f"elect {election.value} leaders", ROUND_PAUSE_MS, ElectionRound(election))


def _elections(electorate: Electorate) -> Iterator[PartitionChangeRecord]:
    for topic, partition in _candidates(electorate):
        record = change_partition(electorate, topic, partition)
        if record is not None:
            yield record


def _candidates(electorate: Electorate) -> Iterator[tuple[Topic, PartitionImage]]:
    is_preferred = electorate.election is LeaderElection.PREFERRED
    wanted = preferred_leader_waits if is_preferred else unclean_leader_may_help
    for topic, partition in electorate.image.partitions():
        if wanted(electorate, topic, partition):
            yield topic, partition


def preferred_leader_waits(
    electorate: Electorate, _topic: Topic, partition: PartitionImage
) -> bool:
    """Return whether another replica leads although the first one may."""
    preferred = partition.replicas[0]
    return (
        partition.leader != preferred
        and preferred in (partition.isr or partition.eligible_leaders)
        and electorate.may_lead(partition, preferred)
    )


def unclean_leader_may_help(
    electorate: Electorate, topic: Topic, partition: PartitionImage
) -> bool:
    """Return whether a partition without a leader may get one that lacks records."""
    return (
        partition.leader == NO_LEADER
        and any(electorate.may_lead(partition, each) for each in partition.replicas)
        and electorate.unclean_configured(topic.name)
    )
