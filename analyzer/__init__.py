"""Floor 2: from a run folder to a verdict. DuckDB and polars, never torch."""

from .diagnose import diagnose
from .errors import AnalyzerError, NotARunError, QueryError, RuleError, UnreadableRunError
from .rules import Rule, load_rules
from .sources import Problem
from .trace import Trace
from .verdict import Finding, FirstAnomaly, NotEvaluable, RunFacts, Verdict

__all__ = [
    "AnalyzerError",
    "Finding",
    "FirstAnomaly",
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
    "load_rules",
]
