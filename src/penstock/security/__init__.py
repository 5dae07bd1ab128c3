"""Logins of peers and the rights of principals, as pure decisions: no I/O, no clock.

login/                                    logins
distinguished_name.py, mapping_rules.py   principals from certificates
acl_index.py    ACLs by resource type, principal and name
authorizer.py   decisions: which caller may do what, and which rule decides
permissions.py  what each API needs
audit.py        the audit log
quotas/         which quota counts, how fast a client is, how long it waits
"""
