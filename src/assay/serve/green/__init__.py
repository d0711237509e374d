"""The evaluator as an A2A agent."""
