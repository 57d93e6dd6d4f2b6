"""What a script's source says of tokens: whether it adds or waits for an end, whether a vocabulary is saved with a model."""

import ast
import linecache
import re
from collections.abc import Iterator
from functools import cache

from .source_nodes import dotted

_LARGEST = 300_000
"""Letters of a file: a parse takes half a second for each million."""
_END = re.compile(
    r"^_?(?:eos(?:_token)?(?:_id|_idx|_index)?|(?:end|stop)_(?:token|id|idx|index)(?:_id|_idx|_index)?)$", re.IGNORECASE
)
_END_SPELT = re.compile(r"(?:<\|?|\[)(?:/s|eos|end|endoftext|stop)(?:\|?>|\])$", re.IGNORECASE)
_SAVES = frozenset({"torch.save", "save_file", "save_pretrained", "save_model", "save_checkpoint", "save_weights"})
_READS = frozenset(
    {"json.load", "json.loads", "pickle.load", "pickle.loads", "joblib.load", "np.load", "yaml.safe_load"}
)
_WORDS = re.compile(
    r"vocab|stoi|itos|tokeni[sz]er|2id|2idx|2int|to_id|to_idx|to_int|_index|mapping|\btok\b", re.IGNORECASE
)

_KEPT_BY = frozenset(
    {"json.dump", "json.dumps", "pickle.dump", "pickle.dumps", "joblib.dump", "yaml.dump", "yaml.safe_dump"}
)
_CLASSES = re.compile(r"class|label|names|categor|_to_|2id|idx", re.IGNORECASE)


@cache
def _parsed(file: str) -> ast.Module | None:
    text = "".join(linecache.getlines(file))
    if not text or len(text) > _LARGEST:
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


@cache
def end_in_use(file: str) -> int | None:
    """The first line that puts an end behind tokens, or compares a token with it."""
    tree = _parsed(file)
    lines = [] if tree is None else [node.lineno for node in ast.walk(tree) if _uses_end(node)]  # type: ignore[attr-defined]
    return min(lines, default=None)


def _uses_end(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.Add(), right=ast.List(elts=[*_, last])):
            return _is_end(last)
        case ast.BinOp(op=ast.Add(), right=ast.Name() | ast.Attribute() | ast.Constant() as last):
            return _is_end(last)
        case ast.List(elts=[ast.Starred() | ast.Name(), *_, last]):
            return _is_end(last)
        case ast.Call(func=ast.Attribute(attr="append"), args=[last]):
            return _is_end(last)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            return _is_end(left) or _is_end(right)
        case _:
            return False


def _is_end(node: ast.AST) -> bool:
    match node:
        case ast.Name() | ast.Attribute():
            return bool(_END.match(dotted(node).rpartition(".")[2]))
        case ast.Constant(value=str(text)):
            return bool(_END_SPELT.search(text))
        case ast.Subscript(slice=ast.Constant(value=str(text))):
            return bool(_END_SPELT.search(text))
        case ast.Subscript(slice=ast.Name() | ast.Attribute() as key):
            return _is_end(key)
        case _:
            return False


@cache
def saved_without(file: str, name: str) -> int | None:
    """The line where a model is saved; 0 where none is. None where the words' numbers are saved with it, where a file of them may
    be read again, and where the source cannot be read."""
    tree = _parsed(file)
    if tree is None:
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if any(dotted(call.func) in _READS or _opens_to_read(call) for call in calls):
        return None
    saving = [call for call in calls if dotted(call.func) in _SAVES or dotted(call.func).rpartition(".")[2] in _SAVES]
    owner = name.partition(".")[0].partition("[")[0]
    for call in saving:
        for word in _mentioned(tree, call):
            if word == owner or _WORDS.search(word):
                return None
    return min((call.lineno for call in saving), default=0)


@cache
def saved_without_classes(file: str, name: str) -> int:
    """The line where a model is saved without the names of its classes; 0 where none is, and where they may be kept elsewhere."""
    tree = _parsed(file)
    calls = [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if tree is None or any(dotted(call.func) in _KEPT_BY for call in calls):
        return 0
    last = name.rpartition(".")[2]
    saving = [call for call in calls if dotted(call.func) in _SAVES or dotted(call.func).rpartition(".")[2] in _SAVES]
    words = {word for call in saving for word in _mentioned(tree, call)}
    if any(word == last or _CLASSES.search(word) for word in words):
        return 0
    return min((call.lineno for call in saving), default=0)


def _opens_to_read(call: ast.Call) -> bool:
    last = call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)
    if last in {"read_text", "read_bytes", "from_file", "load_vocab", "load_vocabulary"}:
        return True
    modes = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "mode")]
    if last != "open" or any(isinstance(m, ast.Constant) and "r" not in str(m.value) for m in modes):
        return False
    return any(_WORDS.search(word) for node in ast.walk(call) for word in _words_of(node))


def _mentioned(tree: ast.Module, call: ast.Call) -> Iterator[str]:
    """Names and keys in what is saved, and in what a variable that is saved was made of."""
    names = set[str]()
    for node in ast.walk(call):
        if isinstance(node, ast.Name):
            names.add(node.id)
        yield from _words_of(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(dotted(_held(target)) in names for target in node.targets):
            if isinstance(node.value, ast.Dict) or any(isinstance(t, ast.Subscript) for t in node.targets):
                for inner in ast.walk(node):
                    yield from _words_of(inner)
            elif isinstance(node.value, ast.Call) and dotted(node.value.func) == "dict":
                yield from (k.arg for k in node.value.keywords if k.arg)


def _held(target: ast.expr) -> ast.expr:
    return target.value if isinstance(target, ast.Subscript) else target


def _words_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)) | ast.Constant(value=str(word)):
            yield word
        case _:
            pass


@cache
def end_place_read(file: str) -> int | None:
    """The first line that takes what stands at the place of a text's end: an index found among the tokens, by ``argmax`` of the
    numbers that are embedded or by comparison with the end."""
    tree = _parsed(file)
    functions = [] if tree is None else [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    return min((line for function in functions for line in _places_read(function)), default=None)


def _places_read(function: ast.FunctionDef) -> Iterator[int]:
    nodes = list(ast.walk(function))
    arguments = {a.arg for a in function.args.args}
    embedded = {a.id for n in nodes if isinstance(n, ast.Call) for a in n.args if isinstance(a, ast.Name)} & arguments
    found = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and _finds_place(node.value, embedded)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        match node:
            case ast.Subscript(slice=ast.Tuple(elts=[_, *_] as index), ctx=ast.Load(), lineno=line):
                pass
            case ast.Call(func=ast.Attribute(attr="gather" | "take_along_dim"), args=[_, *_] as index, lineno=line):
                pass
            case _:
                continue
        inner = [n for part in index for n in ast.walk(part)]
        if any((isinstance(n, ast.Name) and n.id in found) or _finds_place(n, embedded) for n in inner):
            yield line


def _finds_place(node: ast.AST, embedded: set[str]) -> bool:
    """Whether an expression is the place of the largest number among tokens, or of the end."""
    for call in ast.walk(node):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="torch"), attr="argmax" | "nonzero" | "where" as how),
                args=[of, *_],
            ):
                pass
            case ast.Call(func=ast.Attribute(value=of, attr="argmax" | "nonzero" as how)):
                pass
            case _:
                continue
        if isinstance(of, ast.Name) and of.id in embedded and how == "argmax":
            return True
        if any(isinstance(n, ast.Compare) and _uses_end(n) for n in ast.walk(of)):
            return True
    return False
