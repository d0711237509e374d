"""Assay measures retrieval agents."""
