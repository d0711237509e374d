"""The trained track: a ranking that learns from the judged queries of a data set."""
