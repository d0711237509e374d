"""Agents that speak A2A, old and new."""
