"""Metrics of rankings with ceilings, intervals and tests. Read in this order:

graded      ranked lists as flat arrays of ranks and grades
formulas    what each metric computes on them, and the papers
metric      `nDCG @ 10`: names, spellings, cut-offs, metrics of other packages
violations  repeated, unknown and surplus ids
scoring     `assay.score`: a run against judgments
resampling, statistics   intervals and paired tests
describe    what a data set can resolve
searches    what the searches of an agent were worth
foreign_report, audit    whether another evaluator's figures follow from its lists
"""
