"""Which Python functions of a profiler trace are the script's own, by the names that torch.profiler gives them."""

import functools
import re
import sys
import sysconfig
from pathlib import Path

_NAMED = re.compile(r"(?P<file>[^<(][^(]*)\(\d+\): .+")
_OWN = Path(__file__).parents[2]
_LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib")


def is_of_the_script(name: str) -> bool:
    """Whether a call such as `train.py(12): step` is neither of a built-in nor of Python's or an installed library."""
    found = _NAMED.fullmatch(name)
    return found is not None and _is_script(found["file"])


@functools.lru_cache(maxsize=4096)
def _is_script(file: str) -> bool:
    """The profiler cuts off what stands in sys.path: files of libraries begin with the name of their package."""
    path = Path(file)
    if path.is_absolute():
        roots = [_OWN, *(Path(sysconfig.get_path(kind)) for kind in _LIBRARIES)]
        return not any(path.is_relative_to(root) for root in roots)
    if path.parts[0].removesuffix(".py") in sys.stdlib_module_names:
        return False
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path[1:]}
    return not any((Path(folder) / path).is_file() for folder in libraries if "-packages" in folder)
