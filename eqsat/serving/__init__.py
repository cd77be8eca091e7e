"""Free sizes: which code answers a call, and how code is built ahead of calls or beside them."""
