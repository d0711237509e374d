"""The client of the contract: one call, its stream, its failures."""
