"""Parts of a parsed file: its functions, what runs in each, and how it is written."""

import ast
from collections.abc import Iterator, Sequence

_LONGEST = 100

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def scopes(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """The file itself as ``<module>``, and each function with its name."""
    yield tree, "<module>"
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            yield node, node.name


def forwards(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """(class, its ``forward``) of each class that writes one."""
    for owner in ast.walk(tree):
        if isinstance(owner, ast.ClassDef):
            for function in owner.body:
                if isinstance(function, ast.FunctionDef) and function.name == "forward":
                    yield owner.name, function


def inside(scope: ast.AST) -> Iterator[ast.AST]:
    """What runs in a scope: not what stands in a function or class inside it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            yield child
            yield from inside(child)


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a name and its attributes; empty for all else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            held = dotted(value)
            return f"{held}.{name}" if held else ""
        case _:
            return ""


def shown_in(node: ast.expr | ast.stmt, lines: Sequence[str]) -> str:
    """As the script has it written, in one line. ast.get_source_segment splits the whole text each time."""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    written = [line.encode() for line in lines[first : last + 1]]  # columns count bytes
    written[-1] = written[-1][: node.end_col_offset]
    written[0] = written[0][node.col_offset :]
    text = " ".join(b"\n".join(written).decode(errors="replace").split())
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
