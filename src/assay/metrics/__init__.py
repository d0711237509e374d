"""Metrics of rankings with ceilings, intervals and tests. Read in this order:

formulas    ranked lists as flat arrays; what each metric computes on them, and the papers
metric      `nDCG @ 10`: names, spellings, cut-offs, metrics of other packages
scoring     `assay.score`: a run against judgments; repeated, unknown and surplus ids
statistics  intervals, paired tests, and the resamples they rest on
describe    what a data set can resolve
searches    what the searches of an agent were worth
figures, answer_values   figures by name; what a report says about answers
audit       whether another evaluator's figures follow from its lists
"""
