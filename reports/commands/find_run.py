"""Which run folder a command means: the one named, the only one below the folder named, or the newest one."""

from pathlib import Path

from ...schemas.files.layout import RUN_JSON
from ..text.errors import NoRunError

DEFAULT_FOLDER = Path("firstfault-runs")
"""Where `firstfault run` puts runs when it is not told otherwise."""

_LISTED = 8


def find_run(path: Path | None) -> tuple[Path, str | None]:
    """The run folder, and a note where the choice was not the user's own.

    Raises NoRunError where there is none or where there are several to choose from.
    """
    if path is None:
        return _newest()
    if not path.exists():
        raise NoRunError(f"{path}: no such folder; give the folder of a run, such as one below {DEFAULT_FOLDER}/")
    if not path.is_dir():
        raise NoRunError(f"{path}: is a file; give the folder of a run, which holds {RUN_JSON}")
    if (path / RUN_JSON).exists():
        return path, None
    runs = runs_below(path)
    if not runs:
        raise NoRunError(
            f"{path}: neither a run folder (no {RUN_JSON}) nor a folder of runs; give one that `firstfault run` wrote"
        )
    if len(runs) > 1:
        names = "\n".join(f"  {run}" for run in runs[:_LISTED])
        more = f"\n  and {len(runs) - _LISTED} more" if len(runs) > _LISTED else ""
        raise NoRunError(f"{path}: holds {len(runs)} runs; name one of them:\n{names}{more}")
    return runs[0], f"taking {runs[0]}, the only run in {path}"


def runs_below(folder: Path) -> list[Path]:
    """Run folders directly in a folder, newest first."""
    found = [p.parent for p in folder.glob(f"*/{RUN_JSON}")]
    return sorted(found, key=lambda p: (p / RUN_JSON).stat().st_mtime_ns, reverse=True)


def _newest() -> tuple[Path, str | None]:
    runs = runs_below(DEFAULT_FOLDER) if DEFAULT_FOLDER.is_dir() else []
    if not runs:
        raise NoRunError(f"no run named, and there is none below {DEFAULT_FOLDER}/ here; give the folder of a run")
    return runs[0], f"taking {runs[0]}, the newest run" if len(runs) > 1 else f"taking {runs[0]}"
