"""Protocol checks on a trace and the coverage verdict: `checked.check`.

`registry.py` lists the rules, one family a file; `checking.py` feeds them, and they ask `survey.py`. Of coverage,
`meter.py` counts and `verdict.py` judges.
"""
