"""No module reaches itself through the modules that it imports; imports inside functions count."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("schemas", "recorder", "analyzer", "reports")


def modules() -> dict[str, Path]:
    files = [f for room in ROOMS for f in (ROOT / room).rglob("*.py") if not {"inject", "demo_script"} & set(f.parts)]
    return {".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): f for f in files}


def imports_of(module: str, file: Path, known: dict[str, Path]) -> set[str]:
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - (node.level - 1)]
            target = ".".join([*base, *([node.module] if node.module else [])])
            names = {f"{target}.{a.name}" for a in node.names}
            found |= {name if name in known else target for name in names}
    return found & set(known) - {module}


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as e:
        return list(e.args[1])
    return []


def test_no_module_is_in_a_circle_of_imports() -> None:
    known = modules()
    graph = {module: imports_of(module, file, known) for module, file in known.items()}
    assert len(graph) > 200
    assert sum(map(len, graph.values())) > 1000
    assert circle_in(graph) == []


@pytest.mark.parametrize("circle", [{"a": {"b"}, "b": {"a"}}, {"a": {"b"}, "b": {"c"}, "c": {"b"}}])
def test_a_circle_is_found(circle: dict[str, set[str]]) -> None:
    assert circle_in(circle) != []
