"""Every metric of a node, in the order of the page and of its reference."""

from penstock.broker.metrics import (
    rows_cleaner,
    rows_cluster,
    rows_node,
    rows_requests,
    rows_topics,
)
from penstock.broker.metrics.row import Row
from penstock.observe.metric import check_table

SECTIONS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    ("Topics and partitions", rows_topics.ROWS),
    ("Requests and connections", rows_requests.ROWS),
    ("Cluster and coordinators", rows_cluster.ROWS),
    ("Compaction", rows_cleaner.ROWS),
    ("Node, directories, process", rows_node.ROWS),
)
TABLE: tuple[Row, ...] = tuple(row for _, rows in SECTIONS for row in rows)
check_table(TABLE)
