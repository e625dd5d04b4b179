"""One federation: what hospitals compute, and what the server does."""
