"""Select the tensors that the options ``include`` and ``exclude`` want measured.

A pattern (``*``, ``?``, ``[…]``) is compared with the name of the tensor, of its module, and of every module around that. So
`blocks.0` means all that is in blocks.0; `kind:activation` means a kind. What enters and leaves the model as a whole (inputs,
targets, losses) is always measured. So are scalars such as the gradient norm, which count excluded tensors too.
"""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

from .options import Options

ALWAYS = {"input", "target", "loss"}
"""Kinds that cannot be excluded."""


def chosen(options: Options) -> Callable[[str, str], bool] | None:
    """Whether a tensor is wanted, by its name and kind; None where all are."""
    include, exclude = options.include, options.exclude
    if not include and not exclude:
        return None

    def wanted(name: str, kind: str) -> bool:
        if kind in ALWAYS:
            return True
        names = [*_names(name), f"kind:{kind}"]
        if any(fnmatchcase(n, pattern) for n in names for pattern in exclude):
            return False
        return not include or any(fnmatchcase(n, pattern) for n in names for pattern in include)

    return wanted


def _names(name: str) -> Iterator[str]:
    """`a.b.weight` → itself, a.b, a; `a.b:output0` → itself, a.b, a."""
    yield name
    module = name.partition(":")[0] if ":" in name else name.rpartition(".")[0]
    while module:
        yield module
        module = module.rpartition(".")[0]
