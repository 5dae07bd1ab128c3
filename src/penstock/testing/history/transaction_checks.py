"""Checks that transactions are atomic, with all records and offsets or none, and that commits
persist.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.testing.history.anomalies import Anomaly, LostOffsets, TornTransaction
from penstock.testing.history.events import (
    ClientOutcome,
    Isolation,
    Moment,
    OffsetCommit,
    OffsetFetch,
    Place,
    RecordedTransaction,
)
from penstock.testing.history.evidence import Evidence, Progress


def check_transactions(evidence: Evidence) -> Iterator[Anomaly]:
    for transaction in evidence.transactions.values():
        yield from _torn(evidence, transaction)
    groups = {group for group, _ in evidence.commits}
    for progress, fetches in sorted(evidence.fetches.items()):
        if progress[0] not in groups:
            continue  # its commits were not recorded
        commits = _possible_commits(evidence, progress)
        for fetch, offset in fetches:
            yield from _progress(evidence, progress, commits, fetch, offset)


def _torn(evidence: Evidence, transaction: RecordedTransaction) -> Iterator[Anomaly]:
    number = transaction.number
    missing = tuple(
        each
        for each in evidence.sends_in.get(number, ())
        if evidence.missing(each, Isolation.READ_COMMITTED) is not None
    )
    if not missing or not evidence.shows(number):
        return
    offsets = evidence.offsets_seen.get(number, [])
    yield TornTransaction(
        transaction,
        seen=evidence.sends_seen(number),
        missing=missing,
        offsets_of=offsets[0].group if offsets else None,
        offsets_seen=tuple(sorted({each.place for each in offsets})),
    )


class _Effect(NamedTuple):
    """An offset commit that took, or may have taken, effect between two moments."""

    commit: OffsetCommit
    offset: int
    since: Moment
    until: Moment | None  # certainly effective by then; None: perhaps never


def _possible_commits(evidence: Evidence, progress: Progress) -> list[_Effect]:
    found = []
    for commit, place in evidence.commits.get(progress, ()):
        if not evidence.may_have_effect(commit):
            continue
        transaction = evidence.transaction_of(commit)
        since, until = commit.span
        if transaction is not None:
            assert transaction.commit_asked is not None, "else it would have no effect"
            since = transaction.commit_asked
            until = evidence.committed_at.get(transaction.number)
        certain = commit.outcome is ClientOutcome.OK
        found.append(_Effect(commit, place.offset, since, until if certain else None))
    return found


def _progress(
    evidence: Evidence,
    progress: Progress,
    commits: list[_Effect],
    fetch: OffsetFetch,
    offset: int | None,
) -> Iterator[Anomaly]:
    """Check an answer: it must be the last commit before the request, or one in flight."""
    asked, answered = fetch.span
    before = [each for each in commits if each.until is not None and each.until < asked]
    # A commit that began after another had ended replaced it.
    newest = max((each.since for each in before), default=None)
    possible = [
        each
        for each in commits
        if (answered is None or each.since < answered)
        and (each.until is None or newest is None or each.until >= newest)
    ]
    if any(each.offset == offset for each in possible) or (offset is None and not before):
        return
    group, partition = progress
    for commit, place in evidence.commits.get(progress, ()):
        transaction = evidence.transaction_of(commit)
        if transaction and place.offset == offset and evidence.never_committed(transaction):
            sends = tuple(evidence.sends_in.get(transaction.number, ()))
            yield TornTransaction(transaction, (), sends, group, (place,))
            return
    # The answer is a replaced commit, or none: the last commit was lost.
    stale = offset is None or any(each.offset == offset for each in commits)
    last = max(before, key=lambda each: each.since, default=None)
    transaction = evidence.transaction_of(last.commit) if last is not None else None
    seen = evidence.sends_seen(transaction.number) if transaction is not None else ()
    if stale and last is not None and transaction is not None and seen:
        place = Place(partition, last.offset)
        yield TornTransaction(transaction, seen, (), group, offsets_missing=(place,))
        return
    offsets = tuple(sorted({each.offset for each in possible}))
    yield LostOffsets(group, partition, fetch.process, offset, offsets)
