"""Which cluster a command talks to, and the clients for it."""
