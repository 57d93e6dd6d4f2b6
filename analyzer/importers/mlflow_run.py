"""The folder of an MLflow run: `metrics/NAME` with lines of time, value and step; `params/NAME`; `meta.yaml`.

Not taken: artifacts, tags, system metrics in a database. A tracking server's database is no folder: export the run first.
"""

from pathlib import Path

from ..errors import ImportFileError
from .records import number_of
from .series import Point, put_curves
from .target import RunTarget

_MOST = 1 << 26
"""Bytes of one metric."""


def is_mlflow_run(folder: Path) -> bool:
    """Whether a folder is that of one MLflow run."""
    return (folder / "meta.yaml").is_file() and (folder / "metrics").is_dir()


def import_mlflow_run(path: Path, target: RunTarget, label: str) -> str:
    """Read the metrics of a run's folder into the target. Returns what was found."""
    curves: dict[str, list[Point]] = {}
    for file in sorted(p for p in (path / "metrics").rglob("*") if p.is_file()):
        name = file.relative_to(path / "metrics").as_posix()
        if file.stat().st_size > _MOST:
            raise ImportFileError(f"{file}: is larger than {_MOST >> 20} MB; thin it to every tenth line first")
        points = [_point(line.split()) for line in file.read_text("utf-8", "replace").splitlines()]
        curves[f"{label}/{name}" if label else name] = [point for point in points if point is not None]
    if not any(curves.values()):
        raise ImportFileError(f"{path}: its folder metrics holds no numbers; nothing can be imported from it")
    params = {p.name: p.read_text("utf-8", "replace")[:200] for p in sorted((path / "params").glob("*")) if p.is_file()}
    target.facts.setdefault("config", params)
    return put_curves(target, path, 0, curves, "mlflow")


def _point(cells: list[str]) -> Point | None:
    numbers = [number_of(cell) for cell in cells]
    if len(numbers) < 2 or numbers[0] is None or numbers[1] is None:
        return None
    step = numbers[2] if len(numbers) > 2 and numbers[2] is not None else 0.0
    return Point(max(int(step), 0), numbers[1], int(numbers[0] * 1e6))
