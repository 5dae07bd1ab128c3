"""A cluster as a client sees it: the node for each request, and the time limit of a call.

nodes.py        connections to the nodes
routing.py      finds controller, leaders and coordinators, and retries after they moved
limits.py       the time limit of a whole call, and its cancellation
topics.py       topics in metadata, and their offsets
"""
