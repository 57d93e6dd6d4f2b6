"""Floor 2: from a run folder to a verdict. DuckDB and polars, never torch."""

from .diagnosis.diagnose import diagnose
from .errors import AnalyzerError, NotARunError, QueryError, RuleError, UnreadableRunError
from .reading.sources import Problem
from .reading.trace import Trace
from .rules.rule import Rule, load_rules
from .rules.thresholds import RuleSet, rules_for
from .verdict import Change, Finding, FirstAnomaly, NotEvaluable, RunFacts, Verdict

__all__ = [
    "AnalyzerError",
    "Change",
    "Finding",
    "FirstAnomaly",
    "NotARunError",
    "NotEvaluable",
    "Problem",
    "QueryError",
    "Rule",
    "RuleError",
    "RuleSet",
    "RunFacts",
    "Trace",
    "UnreadableRunError",
    "Verdict",
    "diagnose",
    "load_rules",
    "rules_for",
]
