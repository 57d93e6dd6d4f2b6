"""What the recorder says on the script's terminal."""

import sys


def warn(slug: str, message: str) -> None:
    """One line on the script's stderr; the slug can be looked up in the documentation."""
    print(f"firstfault: [{slug}] {message}", file=sys.stderr, flush=True)  # noqa: T201 — the user's terminal is the only reader
