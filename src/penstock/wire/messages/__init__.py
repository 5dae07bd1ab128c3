"""One file per API: its request and its response, in all versions.  `wire.apis` loads them."""
