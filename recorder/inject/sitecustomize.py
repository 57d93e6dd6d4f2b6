"""Attaches the recorder to a Python process that `firstfault run` started, or a descendant of it.

Python imports ``sitecustomize`` before the script. This one takes itself out of the way completely: afterwards
sys.path and sys.modules are as without it, and a sitecustomize of the user's or the system's own has run in its
place. PYTHONPATH in the environment stays, so that children attach too.
"""


def _leave_path():
    import os  # noqa: PLC0415 - names at module level would be seen by the sitecustomize that follows
    import sys  # noqa: PLC0415

    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would load ten modules early
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]  # noqa: PTH100
    sys.path_importer_cache.pop(here, None)


def _attach():
    import os  # noqa: PLC0415

    if not os.environ.get("FIRSTFAULT_RUN"):
        return
    try:
        from firstfault.recorder.attach import attach_from_environment  # noqa: PLC0415

        attach_from_environment()
    except ModuleNotFoundError as e:
        if e.name != "firstfault":  # another interpreter, without firstfault: a tool that the script calls
            _warn(e)
    except Exception as e:  # noqa: BLE001 - whatever is wrong with the recorder, the training goes on
        _warn(e)


def _warn(e):
    import sys  # noqa: PLC0415

    if sys.stderr is not None:
        sys.stderr.write(f"firstfault: [not-attached] this process is not recorded: {type(e).__name__}: {e}\n")


def _next_one():
    """Run the sitecustomize that this one hides, or tell Python that there is none."""
    import importlib.util  # noqa: PLC0415
    import sys  # noqa: PLC0415
    from importlib.machinery import PathFinder  # noqa: PLC0415

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        # `site` takes this for the normal case and drops the module from sys.modules
        raise ImportError("no sitecustomize besides firstfault's", name="sitecustomize")
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_leave_path()
_attach()
_next_one()
