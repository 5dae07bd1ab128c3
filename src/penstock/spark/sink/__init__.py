"""The exactly-once sink: Spark's micro-batches written to a cluster in transactions.

What decides is pure: `settling.py` (a driver takes over), `committing.py` (a batch is decided and
ended), `admitting.py` (is this batch the one that was decided before?), `task.py` (what one task
writes). `cluster.py` is the seam: what they ask of a cluster. `driver.py` and `writer.py` are the
shell. The rules that comments speak of by number:

1  A sink has an id; everything that belongs to it carries it.
2  A transactional id belongs to one worker process, and is used again only for a newer plan. One
   whose InitProducerId was not answered is never used again.
3  A driver takes over before it plans: it fences older ones, finishes the last decision and aborts
   what no decision names, once it has proved, by storing something after it looked, that nobody
   newer had begun.
4  Decision, then ends, then done; only what the tasks' reports name is committed.
5  A decided batch is never aborted.
6  A decided batch is left out only if it is that very batch.
7  Rows of an unfinished decision that are gone stop the query, if its driver can still store
   something: a fenced one cannot know.
8  In a foreachBatch every write has a sink id of its own.
9  What a killed job left can be recovered by its id; without one its transactions have a timeout.
10 Decisions live in one compacted topic, one key per sink.
11 Where transactions have a timeout, a batch older than half of it is not decided.
"""
