"""Whether a sentence contradicts its sources: rules, then a small model; no network.

`checker.py` is what the metrics use. `perturbation.py` makes contradictions from true sentences,
for training and for tests.
"""
