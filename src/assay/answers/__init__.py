"""Answers: metrics that need no model, a language model as judge, and the diagnosis of failures."""
