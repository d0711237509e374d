"""Reference answers and questions for a data set that has none."""
