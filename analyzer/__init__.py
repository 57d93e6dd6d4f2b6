"""Floor 2: from a run folder to a verdict. DuckDB and polars, never torch."""

from .diagnose import diagnose
from .errors import AnalyzerError, NotARunError, QueryError, RuleError, UnreadableRunError
from .judging import Judging, judging
from .rules import Rule, load_rules
from .sources import Problem
from .trace import Trace
from .verdict import Change, Finding, FirstAnomaly, NotEvaluable, RunFacts, Verdict

__all__ = [
    "AnalyzerError",
    "Change",
    "Finding",
    "FirstAnomaly",
    "Judging",
    "NotARunError",
    "NotEvaluable",
    "Problem",
    "QueryError",
    "Rule",
    "RuleError",
    "RunFacts",
    "Trace",
    "UnreadableRunError",
    "Verdict",
    "diagnose",
    "judging",
    "load_rules",
]
