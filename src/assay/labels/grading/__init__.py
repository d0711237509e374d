"""Relevance of passages graded by a language model, where people have judged nothing."""
