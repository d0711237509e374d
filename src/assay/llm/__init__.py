"""Answers from documents: answerers, language models, and reference answers."""
