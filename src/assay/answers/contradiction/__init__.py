"""Whether a sentence contradicts its sources: rules, then a small model; no network."""
