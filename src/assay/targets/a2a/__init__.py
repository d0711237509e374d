"""Client of agents over A2A, the Agent2Agent protocol, versions 0.3 and 1.0."""
