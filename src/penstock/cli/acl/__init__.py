"""`penstock acl`: access control lists.

bindings.py  the ACLs that options stand for
effects.py   the decisions of a cluster, and what ACLs change in them
"""
