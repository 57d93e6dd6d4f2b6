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

    if not (os.environ.get("FIRSTFAULT_RUN") or os.environ.get("FIRSTFAULT_PROBES")):
        return
    try:
        from firstfault.recorder.attach import attach_from_environment  # noqa: PLC0415

        attach_from_environment()
    except ModuleNotFoundError as e:
        if e.name == "firstfault":
            _say_once_torch_is_used()
        else:
            _warn(f"{type(e).__name__}: {e}")
    except Exception as e:  # noqa: BLE001 - whatever is wrong with the recorder, the training goes on
        _warn(f"{type(e).__name__}: {e}")


def _say_once_torch_is_used():
    """Another interpreter, without firstfault: most often a tool that the script calls, which is nobody's concern."""
    import importlib.util  # noqa: PLC0415
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415

    try:
        here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
        file = os.path.join(os.path.dirname(here), "base", "import_hooks.py")  # noqa: PTH118, PTH120
        spec = importlib.util.spec_from_file_location("firstfault_import_hooks", file)
        hooks = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(hooks)
        why = "it uses torch, but firstfault is not installed for {0}; next: {0} -m pip install 'firstfault[record]'"
        hooks.after_import("torch", lambda: _warn(why.format(sys.executable)))
    except Exception as e:  # noqa: BLE001 - as above
        _warn(f"{type(e).__name__}: {e}")


def _warn(why):
    import sys  # noqa: PLC0415

    if sys.stderr is not None:
        sys.stderr.write(f"firstfault: [not-attached] this process is not recorded: {why}\n")


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
