"""Processes that the script starts through multiprocessing: what ends them, and their last rows.

Such a process catches its exceptions itself, prints them or hands them to its parent, and leaves without running exit
handlers where it was forked: neither the hook for unhandled exceptions nor the one at exit learns of it.
"""

import functools
import sys
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from typing import Any

from torch.multiprocessing.spawn import start_processes

from ..session.patches import Patches
from ..session.session import Session
from ..session.watch import Watch


class ChildrenWatch(Watch):
    """Records exceptions of multiprocessing children and ends their recording when their work is done."""

    name = "children"

    def __init__(
        self,
        session: Session,
        exception: Callable[[BaseException], None],
        interrupted: Callable[[BaseException], None],
        ended: Callable[[], None],
    ) -> None:
        super().__init__(session)
        self._exception = exception
        self._interrupted = interrupted
        self._ended = ended

    def install(self, patches: Patches) -> None:
        """Wrap the life of a child, and what mp.spawn runs in it."""
        seen, ended = self._seen, self._ended

        def wrap_life(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
                self.run = seen(self.run)
                try:
                    return original(self, *args, **kwargs)
                finally:
                    if parent_process() is not None:
                        ended()

            return bootstrap

        def wrap_spawned(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
                return original(seen(function), *args, **kwargs)

            return run

        patches.wrap(BaseProcess, "_bootstrap", wrap_life)
        # torch.multiprocessing.spawn is the function; its module hides behind it
        patches.wrap(sys.modules[start_processes.__module__], "_wrap", wrap_spawned)

    def _seen(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose exceptions are looked at on their way."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except SystemExit:
                raise
            except KeyboardInterrupt as e:  # how torch's spawn ends children whose parent is gone
                self._interrupted(e)
                raise
            except BaseException as e:
                self._exception(e)
                raise

        return call
