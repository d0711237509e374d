"""Clients for agents under test: one module for each protocol, one `Agent` protocol class."""

from assay.targets.protocol import Agent, AgentAnswer, AgentInfo
from assay.targets.python_call import PythonAgent
from assay.targets.target_kinds import open_target

__all__ = [
    "Agent",
    "AgentAnswer",
    "AgentInfo",
    "PythonAgent",
    "open_target",
]
