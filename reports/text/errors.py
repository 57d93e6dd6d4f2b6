"""What a reporter raises. Messages are one sentence that names the file and the next step."""


class ReportError(Exception):
    """Root of all errors of the reports; a command shows it on one or two lines and exits with status 2."""


class NoRunError(ReportError):
    """No run folder, or more than one, where one was asked for."""


class ForeignFileError(ReportError):
    """A file that firstfault did not write stands where the report should go."""


class DemoError(ReportError):
    """The demo's training could not be recorded."""
