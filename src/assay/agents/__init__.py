"""Clients for agents under test: one module for each protocol, one `Agent` protocol class."""

from assay.agents.protocol import Agent, AgentAnswer, AgentInfo
from assay.agents.python_call import PythonAgent
from assay.agents.targets import open_target

__all__ = [
    "Agent",
    "AgentAnswer",
    "AgentInfo",
    "PythonAgent",
    "open_target",
]
