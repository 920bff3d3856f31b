"""Matrix products of every rank."""
