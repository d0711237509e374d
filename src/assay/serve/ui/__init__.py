"""The web pages over the run folders."""
