"""The answers of a run: judged, asked again with other contexts, diagnosed."""
