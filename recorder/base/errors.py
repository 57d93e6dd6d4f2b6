"""The one exception root of the recorder."""


class RecorderError(Exception):
    """Something the user can put right; the message is one sentence that names the file and the next step."""


class CompactionError(RecorderError):
    """Segments that could not become Parquet parts this time. Nothing is lost: they stay in the journal and stay
    readable."""
