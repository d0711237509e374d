"""Poisoned documents: what is planted, and whether an answer follows it."""
