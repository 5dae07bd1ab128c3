"""Consumer groups (KIP-848): the coordinator assigns, members follow step by step.

A group has an epoch, which rises with every change of members, subscriptions or topics. For each
such epoch a target is computed: who is to have which partitions (`target.py`, `assignors/`). Each
member is led to its target on its own (`reconcile.py`): it gives back first, then its epoch
rises, then it gets what the others have given back. No partition ever has two owners.

Everything here is kept in records; what is not are the timers, and whether topics have changed.
`work.py` is the door. Members of the classic protocol may live in such a group while it migrates
(`classic_members.py`, `migration.py`).
"""
