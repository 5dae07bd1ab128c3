"""The server's side of SASL logins: bytes in, bytes out, and in the end a principal."""
