"""Run Python commands in forks of one process that has torch loaded.

`import torch` costs more than most trainings of these tests. Claims about what is recorded do not concern how a process starts:
for them `run` takes the place of `subprocess.run`. The command line, the folder, the environment, the streams and the exit status
are those of a new process; the recorder attaches before the script's first line instead of at its import of torch. What is forked
of `firstfault run` is the supervisor, and the script in a fork of its own. Claims about starting, signals, command lines and the
environment of processes start real ones.
"""

import atexit
import contextlib
import importlib
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

_LOADED = (
    "torch",
    "torch._dynamo",  # the first optimizer of a process loads it
    "pyarrow.compute",
    "pyarrow.dataset",
    "firstfault.recorder.attachment",
    "firstfault.recorder.cli",
    "firstfault.recorder.session.session",
    "firstfault.recorder.storage.run_folder",
    "firstfault.recorder.supervisor.closing_line",
    "firstfault.recorder.supervisor.exit_record",
    "firstfault.recorder.supervisor.supervise",
    "firstfault.recorder.supervisor.watch",
)

_server: "_Server | None" = None


class Done(subprocess.CompletedProcess[Any]):
    """A command that has ended, and the seconds of processor that it and its children took."""

    processor_s: float


def run(
    command: Sequence[object],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes | str = b"",  # noqa: A002 - as subprocess.run calls it
    text: bool = False,
    check: bool = False,
    capture_output: bool = True,
    timeout: float = 120,
) -> Done:
    """Do what `subprocess.run` does with a command of this Python: `[sys.executable, "script.py", …]` or `-m firstfault …`."""
    global _server  # noqa: PLW0603 - one for each worker, and only where it is wanted
    assert capture_output
    words = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in command]
    assert words[0] == sys.executable, words
    if _server is None:
        _server = _Server()
    status, processor_s, out, err = _server.run(
        _Request(words[1:], str(cwd or Path.cwd()), dict(os.environ if env is None else env)), _bytes(input), timeout
    )
    stdout, stderr = (_text(out), _text(err)) if text else (out, err)
    done = Done(words, os.waitstatus_to_exitcode(status), stdout, stderr)
    done.processor_s = processor_s
    if check:
        done.check_returncode()
    return done


def _bytes(given: bytes | str) -> bytes:
    return given.encode() if isinstance(given, str) else given


def _text(given: bytes) -> str:
    return io.TextIOWrapper(io.BytesIO(given), "utf-8").read()  # with line ends as a text pipe has them


class _Request(NamedTuple):
    """What a fork is to become; three open files go with it."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]


def _send(channel: socket.socket, request: _Request, files: Sequence[int]) -> None:
    data = json.dumps(request, ensure_ascii=True).encode()
    with tempfile.TemporaryFile() as file:  # a message that carries files has a size limit; a file has none
        file.write(data)
        file.seek(0)
        socket.send_fds(channel, [b"+"], [*files, file.fileno()])


def _receive(channel: socket.socket) -> tuple[_Request, list[int]] | None:
    """The next request, None when the other side is gone."""
    message, files, _, _ = socket.recv_fds(channel, 1, 4)
    if not message:
        return None
    with os.fdopen(files.pop(), "rb") as file:
        return _Request(*json.loads(file.read())), files


class _Server:
    """The process with torch, as its client sees it."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            environment = {
                k: v for k, v in os.environ.items() if not k.startswith("FIRSTFAULT_") or k.endswith("STRICT")
            }
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment
            )
        atexit.register(self._close)

    def run(self, request: _Request, given: bytes, timeout: float) -> tuple[int, float, bytes, bytes]:
        """Wait status, seconds of processor, what went to stdout and to stderr."""
        with contextlib.ExitStack() as stack:
            streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            streams[0].write(given)
            streams[0].seek(0)
            _send(self._channel, request, [s.fileno() for s in streams])
            pid = int(self._channel.recv(64))
            self._channel.settimeout(timeout)
            try:
                status, _, processor_s = self._channel.recv(64).decode().partition(" ")
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._channel.settimeout(None)
                self._channel.recv(64)
                raise subprocess.TimeoutExpired(request.arguments, timeout) from None
            self._channel.settimeout(None)
            told = []
            for stream in streams[1:]:
                stream.seek(0)
                told.append(stream.read())
            return int(status), float(processor_s), told[0], told[1]

    def _close(self) -> None:
        self._channel.close()
        self._process.wait(10)


# --- the process with torch, and its forks


def _load() -> None:
    """Load what commands and trainings load, and start no thread."""
    for name in _LOADED:
        importlib.import_module(name)
    sys.modules["pyarrow"].array([1])  # loads pandas, where that is installed


def _serve(channel: socket.socket) -> tuple[_Request, list[int]]:
    """Fork for each request, and wait for the fork; returns in the fork."""
    while (received := _receive(channel)) is not None:
        pid = os.fork()
        if pid == 0:
            channel.close()
            return received
        for file in received[1]:
            os.close(file)
        channel.send(b"%64d" % pid)
        _, status, used = os.wait4(pid, 0)
        channel.send(f"{status} {used.ru_utime + used.ru_stime}".ljust(64).encode())
    os._exit(0)


class _Spare:
    """A fork that waits to become the script of the process that made it: its stack holds nothing but the waiting."""

    def __init__(self) -> None:
        self.became: tuple[_Request, list[int]] | None = None
        """In the fork: what it is to become."""
        self._channel, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._channel.close()
            received = _receive(theirs)
            if received is None:
                os._exit(0)
            theirs.close()
            self.became = received
        else:
            theirs.close()

    def become(self, request: _Request, files: Sequence[int]) -> None:
        """Start it."""
        _send(self._channel, request, files)
        self._channel.close()

    def dismiss(self) -> None:
        """Let it end where nobody has started it."""
        if self._channel.fileno() >= 0:
            self._channel.close()
            os.waitpid(self.pid, 0)


def _start_from(spare: _Spare) -> None:
    """Let the first Python that this process starts be the spare fork; further ones are started as ever."""
    usual = subprocess.Popen._execute_child

    def execute(self: Any, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any,
                *rest: Any) -> None:  # fmt: skip
        words = [os.fspath(a) for a in args] if isinstance(args, (list, tuple)) else []
        _, _, _, p2cread, _, _, c2pwrite, _, errwrite, *_ = rest
        if words[:1] != [sys.executable]:
            return usual(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
        subprocess.Popen._execute_child = usual
        request = _Request(words[1:], str(cwd or Path.cwd()), dict(os.environ if env is None else env))
        files = [file if file >= 0 else number for number, file in enumerate((p2cread, c2pwrite, errwrite))]
        spare.become(request, files)
        self.pid, self._child_created = spare.pid, True
        self._close_pipe_fds(*rest[3:9])
        return None

    subprocess.Popen._execute_child = execute


def _prepare(request: _Request, files: Sequence[int]) -> None:
    """Take over folder, environment and streams."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        if file > 2:
            os.close(file)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _become() -> None:
    """The life of a fork, from the request on."""
    made: tuple[_Request, list[int]] | None = _serve(socket.socket(fileno=int(sys.argv[1])))
    spare = None
    while made is not None:
        (request, files), made = made, None
        _prepare(request, files)
        if request.arguments[:2] == ["-m", "firstfault"]:
            spare = _Spare()
            made = spare.became
    if spare is not None and not spare.became:
        _start_from(spare)
    status = _status_of(request)
    if spare is not None and not spare.became:
        spare.dismiss()
    _end(status)


def _status_of(request: _Request) -> int:
    """Run the script or module to its end, as Python does."""
    from firstfault.recorder.attach import attach_from_environment
    from firstfault.recorder.supervisor.torch_process import INJECT

    paths = [p for p in request.environment.get("PYTHONPATH", "").split(os.pathsep) if p and p != str(INJECT)]
    sys.path[0:1] = ["", *paths]
    try:
        attach_from_environment()
        _execute(request.arguments)
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return e.code or 0
        print(e.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        raise  # Python kills itself with it
    except BaseException as e:  # noqa: BLE001 - whatever it is, Python shows it so
        trace = e.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in {__file__, runpy.__file__, _RUNPY}:
            trace = trace.tb_next
        sys.excepthook(type(e), e.with_traceback(trace), trace)
        return 1
    return 0


_RUNPY = "<frozen runpy>"


def _execute(words: list[str]) -> None:
    if words[0] == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = words
    sys.path[0] = str(Path(words[0]).resolve().parent)
    main = type(sys)("__main__")
    main.__file__ = words[0]
    sys.modules["__main__"] = main
    exec(compile(Path(words[0]).read_bytes(), words[0], "exec"), main.__dict__)


def _end(status: int) -> NoReturn:
    """What Python does at its end, without taking its modules apart."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status & 0xFF)


# frames of this file are not the script's: they bear the name that Python's own have there
for _function in (_become, _status_of, _execute, _serve):
    _function.__code__ = _function.__code__.replace(co_filename=_RUNPY)


if __name__ == "__main__":
    _load()
    _become()
