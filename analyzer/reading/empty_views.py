"""Write empty_views.sql, columns of shared views that are often empty: `python -m firstfault.analyzer.reading.empty_views`."""

from pathlib import Path

from .views import empty_database, shared_wants

FILE = Path(__file__).with_suffix(".sql")


def statements() -> str:
    """Text of the file: one statement for each view that has a line "empty without"."""
    lines = ["-- Written by `python -m firstfault.analyzer.reading.empty_views`. Shared views, where they have no row."]
    with empty_database() as con:
        for view in shared_wants():
            columns = [f'"{name}" {kind}' for name, kind, *_ in con.execute(f'DESCRIBE "{view}"').fetchall()]
            lines.append(f"CREATE TABLE {view} ({', '.join(columns)})")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(statements(), encoding="utf-8")
