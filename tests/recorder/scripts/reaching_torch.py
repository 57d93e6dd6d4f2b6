"""Trains twenty steps, after torch has been reached in the way that the first argument names."""

import importlib
import importlib.util
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from importlib.abc import MetaPathFinder
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

STEPS = 20
ALONE = [sys.executable, __file__, "import"]


def train() -> None:
    """Import torch, unless that has been done, and train."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    for _ in range(STEPS):
        x = torch.randn(16, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        with torch.no_grad():  # an optimizer would load torch._dynamo, which takes as long as torch itself
            for weight in model.parameters():
                weight.sub_(weight.grad, alpha=0.05)
                weight.grad = None
        print(loss.item())


def asked_once() -> None:
    assert importlib.util.find_spec("torch")
    train()


def asked_often() -> None:
    for _ in range(50):
        assert importlib.util.find_spec("torch")
        assert importlib.util.find_spec("no_such_library") is None
    train()


def asked_for_a_submodule() -> None:
    assert importlib.util.find_spec("torch.nn.functional")  # imports the package, not the module
    train()


def asked_and_forgotten() -> None:
    assert importlib.util.find_spec("torch")
    importlib.invalidate_caches()
    sys.path_importer_cache.clear()
    train()


def asked_by_the_finders_themselves() -> None:
    assert PathFinder.find_spec("torch")
    for finder in sys.meta_path:
        if hasattr(finder, "find_spec"):
            finder.find_spec("torch", None)
    train()


def executed_by_hand() -> None:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["torch"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    train()


def import_module() -> None:
    importlib.import_module("torch.utils.data")
    train()


def in_a_thread() -> None:
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()


def imported_in_a_thread() -> None:
    thread = threading.Thread(target=importlib.import_module, args=("torch",))
    thread.start()
    thread.join()
    train()


def imported_by_many_threads() -> None:
    threads = [threading.Thread(target=importlib.import_module, args=("torch",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    train()


def unpickled() -> None:
    tensor = b"ctorch\nones\n(I3\ntR."  # torch.ones(3), in the oldest protocol
    assert pickle.loads(tensor).sum() == 3  # noqa: S301 — written one line above
    train()


def lazily() -> None:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    sys.modules["torch"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    importlib.import_module("logging")
    train()


def after_a_failed_import() -> None:
    class Refuse(MetaPathFinder):
        """A library of which a part is missing the first time."""

        def find_spec(self, name, path=None, target=None):
            if name == "torch._utils":  # before anything compiled is loaded, which cannot be loaded again
                raise ImportError("not yet")

    sys.meta_path.insert(0, refuse := Refuse())
    try:
        importlib.import_module("torch")
    except ImportError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
            del sys.modules[name]
    else:
        raise AssertionError("torch was imported")
    sys.meta_path.remove(refuse)
    train()


def with_finders_of_its_own() -> None:
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter, PathFinder]
    train()


def with_a_finder_that_asks_the_others() -> None:
    class Asking(MetaPathFinder):
        """Looks for what all others find, as tools do that rewrite modules."""

        def find_spec(self, name, path=None, target=None):
            others = (f for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
            return next((spec for f in others if (spec := f.find_spec(name, path, target))), None)

    class AskingOnce(Asking):
        """The same, with the guard against being asked by another of its kind."""

        names: frozenset[str] = frozenset()

        def find_spec(self, name, path=None, target=None):
            if name in self.names:
                return None
            self.names |= {name}
            try:
                return super().find_spec(name, path, target)
            finally:
                self.names -= {name}

    sys.meta_path.insert(0, AskingOnce())
    train()


def with_a_path_finder_of_its_own() -> None:
    class Elsewhere(PathFinder):
        """Finds nothing by itself; what it does not override is the usual finder's."""

        asked = 0

        @classmethod
        def find_spec(cls, fullname, path=None, target=None):
            cls.asked += 1
            return super().find_spec(fullname, path, target)

    sys.meta_path[sys.meta_path.index(PathFinder)] = Elsewhere
    train()
    assert Elsewhere.asked


def in_a_forked_child() -> None:
    child = multiprocessing.get_context("fork").Process(target=train)
    child.start()
    child.join()


def in_a_child_forked_by_hand() -> None:
    child = os.fork()
    if child == 0:
        train()
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)


def imported_before_the_fork() -> None:
    importlib.import_module("torch")
    in_a_forked_child()


def in_a_spawned_child() -> None:
    child = multiprocessing.get_context("spawn").Process(target=train)
    child.start()
    child.join()


def imported_before_the_spawn() -> None:
    importlib.import_module("torch")
    in_a_spawned_child()


def in_a_child_of_the_fork_server() -> None:
    child = multiprocessing.get_context("forkserver").Process(target=train)
    child.start()
    child.join()


def in_a_subprocess() -> None:
    subprocess.run(ALONE, check=True)


def in_the_place_of_the_script() -> None:
    os.execv(sys.executable, ALONE)  # noqa: S606 — the script's own interpreter


def in_a_pool() -> None:
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(train).result()


def with_a_wrapped_import() -> None:
    import builtins

    original = builtins.__import__

    def theirs(name, *rest, **named):
        return original(name, *rest, **named)

    builtins.__import__ = theirs
    train()


WAYS = {
    "import": train,
    **{
        way.__name__.replace("_", "-"): way
        for way in (
            asked_once,
            asked_often,
            asked_for_a_submodule,
            asked_and_forgotten,
            asked_by_the_finders_themselves,
            executed_by_hand,
            import_module,
            in_a_thread,
            imported_in_a_thread,
            imported_by_many_threads,
            unpickled,
            lazily,
            after_a_failed_import,
            with_finders_of_its_own,
            with_a_finder_that_asks_the_others,
            with_a_path_finder_of_its_own,
            in_a_forked_child,
            in_a_child_forked_by_hand,
            imported_before_the_fork,
            in_a_spawned_child,
            imported_before_the_spawn,
            in_a_child_of_the_fork_server,
            in_a_subprocess,
            in_the_place_of_the_script,
            in_a_pool,
            with_a_wrapped_import,
        )
    },
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
