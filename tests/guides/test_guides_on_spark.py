"""Every box of the guides on Spark is run as printed, by one reader on one node."""

from pathlib import Path

import pytest
from guide_course import ON_SPARK, SHARED_NODE, check_reading

pytestmark = pytest.mark.xdist_group("spark-guides")


@pytest.mark.timeout(900)
def test_a_reader_of_the_guides_on_spark_succeeds(tmp_path: Path) -> None:
    check_reading(ON_SPARK, tmp_path)


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_a_reader_who_does_all_guides_on_one_node_in_any_order_succeeds(tmp_path: Path) -> None:
    """Guides that use no topic and no group of another one can be read in any order."""
    check_reading(SHARED_NODE, tmp_path)
