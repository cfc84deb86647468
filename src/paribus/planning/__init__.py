"""Before a run: what differs, what it needs, what it will cost and what it can show."""
