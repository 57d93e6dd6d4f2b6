"""What the parts of the recorder declare of themselves, read from their source: to import them would load torch."""

import ast
from pathlib import Path
from typing import NamedTuple

_BASES = {"Part", "Watch"}


class PartDeclaration(NamedTuple):
    """A class of the recorder that fills tables."""

    name: str
    writes: tuple[str, ...]
    """Tables, columns (``steps.rng``) and kinds of rows (``events:seeded``)."""
    uses: tuple[str, ...]
    is_watch: bool
    """Whether it can be left out of a recording."""


def read_declarations(folder: Path) -> list[PartDeclaration]:
    """Those of all classes below a folder that are made from Part or Watch, by name; none where there is no source."""
    found: list[PartDeclaration] = []
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text("utf-8")
        if any(f"({base})" in text for base in _BASES):
            classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
            found += [declared for node in classes if (declared := _of(node)) is not None]
    return sorted(found)


def _of(node: ast.ClassDef) -> PartDeclaration | None:
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)} & _BASES
    values = {
        target.id: ast.literal_eval(statement.value)
        for statement in node.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id in PartDeclaration._fields
    }
    if not bases or "name" not in values:
        return None
    return PartDeclaration(values["name"], values.get("writes", ()), values.get("uses", ()), "Watch" in bases)
