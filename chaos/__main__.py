"""`python -m chaos`: hundreds of kills, run after run, and their sum. `make chaos` is this.

Each run has a seed of its own, which decides who is killed and when. The last is at least once, and
must show what the others must not.
"""

import argparse
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from types import FrameType

from bench.servers import CACHE
from chaos.killing import Kill, Victim
from chaos.moments import Phase
from chaos.run import AT_LEAST_ONCE, EXACTLY_ONCE, Orders, Run, Verdict

KILLS = 200
KILLS_PER_RUN = 50
KILLS_AT_LEAST_ONCE = 12
# Chance may spare the few batches of one run; two more are tried before that is a fault.
AT_LEAST_ONCE_RUNS_MAX = 3
PLACE = CACHE / "chaos"
BEGIN_OF_REASON, END_OF_REASON = "terminated with exception: ", "=== Streaming Query ==="
REASON_CHARACTERS_MAX = 40
_KIND = re.compile(r"([A-Z]\w+): ")


def _end(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # so that SIGTERM cleans up as Ctrl-C does


def one_run(orders: Orders) -> Verdict:
    """What it leaves on the disk is kept only if something is wrong."""
    folder = PLACE / f"{orders.guarantee}-{orders.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    verdict = Run(orders, folder).go()
    print(
        f"seed {orders.seed}, {orders.guarantee}: {len(verdict.kills)} kills, "
        f"{verdict.batches} batches, {verdict.rows} rows, {verdict.lives} drivers, "
        f"{len(verdict.stops)} stops, {verdict.duplicates} duplicates, {verdict.seconds:.0f} s: "
        f"{'FAIL' if verdict.problems else 'pass'}",
        flush=True,
    )
    for each in verdict.problems:
        print(f"    {each}", flush=True)
    if verdict.problems:
        print(f"    what it left is in {folder}", flush=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return verdict


def summary(verdicts: Sequence[Verdict]) -> str:
    kills = [kill for verdict in verdicts for kill in verdict.kills]
    lines = [f"{'killed':46}{'all':>6}{'in flight':>11}   " + "   ".join(Phase)]
    lines += [
        _row(str(victim), [each for each in kills if each.victim is victim]) for victim in Victim
    ]
    lines.append(_row("in all", kills))
    lines.append(
        f"{sum(each.batches for each in verdicts)} batches, {sum(each.rows for each in verdicts)} "
        f"rows, {sum(each.lives for each in verdicts)} drivers, "
        f"{sum(len(each.stops) for each in verdicts)} stops of a query, "
        f"{sum(each.seconds for each in verdicts):.0f} s"
    )
    reasons = Counter(reason(why) for verdict in verdicts for why in verdict.stops)
    lines += [f"{count:6} stopped by {words}" for words, count in reasons.most_common()]
    return "\n".join(lines)


def reason(why: str) -> str:
    """What a query's last words are about: kinds of exception, the first one first, or words."""
    words = why.partition(END_OF_REASON)[0].partition(BEGIN_OF_REASON)[2]
    words = re.sub(r"SQLSTATE: \w+", "", words)
    kinds = dict.fromkeys(_KIND.findall(words))
    return ", ".join(kinds) or words.strip()[:REASON_CHARACTERS_MAX] or "nothing that it names"


def _row(name: str, kills: Sequence[Kill]) -> str:
    phases = Counter(each.phase for each in kills)
    flying = sum(each.in_flight for each in kills)
    counts = "   ".join(f"{phases[each]:>{len(each)}}" for each in Phase)
    return f"{name:46}{len(kills):>6}{flying:>11}   {counts}"


def orders_of(given: argparse.Namespace) -> Iterator[Orders]:
    seed = given.seed
    if given.guarantee != AT_LEAST_ONCE:
        for _ in range(-(-given.kills // given.kills_per_run)):
            yield Orders(seed, given.kills_per_run, nodes=given.nodes)
            seed += 1
    if given.guarantee != EXACTLY_ONCE:
        for another in range(AT_LEAST_ONCE_RUNS_MAX):
            yield Orders(seed + another, KILLS_AT_LEAST_ONCE, AT_LEAST_ONCE, nodes=given.nodes)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS, help="of exactly-once runs, in all")
    parser.add_argument("--kills-per-run", type=int, default=KILLS_PER_RUN)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000, help="the first")
    parser.add_argument("--guarantee", choices=[EXACTLY_ONCE, AT_LEAST_ONCE])
    parser.add_argument("--nodes", type=int, choices=[1, 3], default=1, help="of the cluster")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    verdicts: list[Verdict] = []
    try:
        for orders in orders_of(given):
            verdicts.append(one_run(orders))
            if verdicts[-1].duplicates and not orders.exactly_once:
                break  # that is what it is for
    except KeyboardInterrupt:
        print("ended before all was done; so far:")
    print(summary(verdicts))
    wrong = [f"seed {each.orders.seed}" for each in verdicts if each.problems]
    plain = [each for each in verdicts if not each.orders.exactly_once]
    if plain and not any(each.duplicates for each in plain):
        wrong.append("at least once showed no duplicate, so this proves nothing")
    print(f"FAIL: {', '.join(wrong)}" if wrong else "pass")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
