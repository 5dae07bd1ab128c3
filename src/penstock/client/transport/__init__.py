"""One connection to one node: bytes, secured, and requests with their answers.

connection.py   sends requests, gets their answers in order
sockets.py      bytes over TCP or TLS, with a limit on every wait
security.py     how it is secured, from Kafka's own keys; jaas.py reads `sasl.jaas.config`
diagnosis.py    what a port speaks, for who is not understood there
tls.py          `ssl.*`; stores.py: key stores and trust stores as PEM
sasl.py         the mechanisms; scram.py: SCRAM; tokens.py: where OAUTHBEARER tokens come from
"""
