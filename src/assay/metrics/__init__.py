"""Scores of ranked lists, their ceilings, and their confidence intervals."""
