"""Whether what came out is what was ordered: in the topic and in the Parquet files, each once."""

import sys
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from examples.orders.pipeline import Place, archived_results, committed_results, totals
from examples.orders.shop import Cell, Customer, Order, Total, differences, expected
from examples.orders.view import money

DIFFERENCES_SHOWN_MAX = 20


def check(
    spark: SparkSession, place: Place, arrived: Sequence[Order], known: Sequence[Customer]
) -> bool:
    """Says which; differences go to standard error."""
    wanted = expected(arrived, known)
    found = {
        f"the topic {place.revenue}": committed_results(spark, place),
        "the Parquet files": archived_results(spark, place),
    }
    right = [_agrees(name, wanted, totals(results)) for name, results in found.items()]
    if not all(right):
        return False
    revenue = sum(each.revenue_cents for each in wanted.values())
    windows = len({cell.window_start for cell in wanted})
    print(
        f"checked: {len(arrived):,} orders, revenue {money(revenue)}, {windows} windows; "
        f"{' and '.join(found)} have every one of the {len(wanted)} results exactly once"
    )
    return True


def _agrees(name: str, wanted: Mapping[Cell, Total], found: Sequence[tuple[Cell, Total]]) -> bool:
    said = differences(wanted, found)
    if said:
        print(f"WRONG: {name} and what was ordered differ:", file=sys.stderr)
        for line in said[:DIFFERENCES_SHOWN_MAX]:
            print(f"  {line}", file=sys.stderr)
        if len(said) > DIFFERENCES_SHOWN_MAX:
            print(f"  and {len(said) - DIFFERENCES_SHOWN_MAX} more", file=sys.stderr)
    return not said
