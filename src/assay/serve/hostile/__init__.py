"""`assay serve hostile`: an agent that misbehaves on demand, for testing evaluators and clients."""
