"""Nuggets: the key facts that answers to a question should state, without a reference answer."""
