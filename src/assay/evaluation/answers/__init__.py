"""Evaluation of answers: cases, judge, counterfactual runs, and the section of the report.

Imported only by runs that evaluate answers.
"""
