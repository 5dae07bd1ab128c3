"""One connection to one node: bytes, secured, and requests with their responses.

connection.py   sends requests, receives their responses in order
sockets.py      bytes over TCP or TLS, with a limit on every wait
security.py     TLS and SASL from Kafka's own keys; jaas.py reads `sasl.jaas.config`
diagnosis.py    the protocol that a port speaks, for a client with the wrong security.protocol
tls_files.py    the files of `ssl.*`, whose settings are in credentials/
sasl.py         the mechanisms; scram.py: SCRAM; tokens.py: sources of OAUTHBEARER tokens
"""
