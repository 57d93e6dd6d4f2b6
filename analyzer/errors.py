"""What can go wrong in reading a run. Every message is one sentence that names the file and the next step."""

from ..schemas import SchemaError


class AnalyzerError(Exception):
    """Root of the analyzer's errors."""


class NotARunError(AnalyzerError):
    """The path is not a folder that firstfault wrote."""


class UnreadableRunError(AnalyzerError, SchemaError):
    """The folder is a run, but a file that everything depends on cannot be read."""


class QueryError(AnalyzerError):
    """A SQL statement failed; the message is DuckDB's."""


class RuleError(AnalyzerError):
    """A rule's file is not as the format wants it."""


class ImportFileError(AnalyzerError):
    """A file cannot be imported, or the run folder that it would become is taken."""


def first_line(e: BaseException) -> str:
    """The first line of an error's message, or its type where it has none."""
    return (str(e).splitlines() or [type(e).__name__])[0]
