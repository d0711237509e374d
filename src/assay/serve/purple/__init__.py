"""The retrieval agent over A2A."""
