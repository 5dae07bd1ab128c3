"""`penstock debug`: an archive for maintainers, without credentials."""
