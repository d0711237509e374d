"""Shared by both A2A agents: card, routes, tasks."""
