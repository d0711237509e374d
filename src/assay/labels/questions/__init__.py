"""Generates questions from documents: known-item, single-hop, multi-hop, comparison, temporal and
unanswerable ones.
"""
