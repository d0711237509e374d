"""Agents that keep the HTTP contract."""
