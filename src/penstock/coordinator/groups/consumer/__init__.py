"""Consumer groups (KIP-848): the coordinator assigns, members follow step by step.

A group has an epoch, which rises with every change of members, subscriptions or topics. For each
such epoch a target assignment is computed (`target.py`, `assignors/`). Each member reconciles with
its target on its own (`reconcile.py`). The member revokes partitions first, then its epoch rises.
Then the member gets partitions that others have revoked. A partition has one owner at most.

Records hold the whole state but the timers and the flags for changed topics. `requests.py` is the
entry. Members of the classic protocol may be in such a group while it migrates
(`classic_members.py`, `migration.py`).
"""
