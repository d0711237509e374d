"""Agents that keep the contract of `assay.contract`: one module for each task."""
