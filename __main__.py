"""The ``firstfault`` command."""

import sys

from .own_libraries import come_first

come_first()  # before any of them is loaded


def main() -> None:
    """Entry point of the console script. Arguments of `firstfault run` that are plain are read without the library that reads
    all others: a script waits for this."""
    if sys.argv[1:2] == ["run"]:
        from .recorder.base.plain_arguments import plain_arguments  # noqa: PLC0415 - other commands do without it
        from .recorder.cli import run  # noqa: PLC0415

        given = plain_arguments(run, sys.argv[2:])
        if given is not None:
            run(**given)
    from .application import build_app  # noqa: PLC0415 - loads what reads options

    build_app(sys.argv[1] if len(sys.argv) > 1 else None)()


if __name__ == "__main__":
    main()
