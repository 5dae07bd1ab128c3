"""A cluster as a client sees it: which node answers a question, and how long it may take.

nodes.py        connections to the nodes, and who is who among them
routing.py      controller, leaders and coordinators are found, and asked again once they moved
limits.py       how long a whole call may take, and how it is broken off
topics.py       topics as metadata tells them
offsets.py      where offsets are, and dropping what is before one
"""
