"""Run Python commands in forks of one process that has torch loaded.

`import torch` costs more than most trainings of these tests. Claims about what is recorded do not concern how a process starts:
for them `run` takes the place of `subprocess.run`. The command line, the folder, the environment, the streams and the exit
status are those of a new process. The recorder attaches before the script's first line, not at its import of torch. `firstfault
run` is a fork, and its script another one. What reads the environment when it is imported has read it before. Claims about
starting, signals, command lines and environments start real processes.
"""

import atexit
import contextlib
import gc
import importlib
import io
import json
import multiprocessing.process
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

_LOADED = (
    "torch",
    "torch._dynamo",  # the first optimizer of a process loads it
    "pyarrow.compute",
    "pyarrow.dataset",
    "firstfault.recorder.attachment",
    "firstfault.recorder.cli",
    "firstfault.recorder.probes",
    "firstfault.recorder.session.session",
    "firstfault.recorder.storage.run_folder",
    "firstfault.recorder.supervisor.closing_line",
    "firstfault.recorder.supervisor.exit_record",
    "firstfault.recorder.supervisor.supervise",
    "firstfault.recorder.supervisor.watch",
)

_SHARED = "TESTS_FORK_SERVER"
"""Environment: the socket of a process with torch that all workers share."""

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
    assert capture_output
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        streams[0].write(input.encode() if isinstance(input, str) else input)
        streams[0].seek(0)
        process = Process(command, cwd, env, streams)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        for stream in streams:
            stream.seek(0)
        out, err = (stream.read() for stream in streams[1:])
    done = Done(process.args, status, *((_text(out), _text(err)) if text else (out, err)))
    done.processor_s = process.processor_s
    if check:
        done.check_returncode()
    return done


def _text(given: bytes) -> str:
    return io.TextIOWrapper(io.BytesIO(given), "utf-8").read()  # with line ends as a text pipe has them


class _Request(NamedTuple):
    """What a fork is to become; its streams go with it as open files."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]


class Process:
    """A command of this Python that is running, as `subprocess.Popen` shows it. Without ``streams`` it has none."""

    def __init__(
        self,
        command: Sequence[object],
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        streams: Sequence[IO[bytes]] = (),
    ) -> None:
        global _server  # noqa: PLW0603 - one for each worker, and only where it is wanted
        self.args = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in command]
        assert self.args[0] == sys.executable, self.args
        if _server is None:
            _server = _Server()
        request = _Request(self.args[1:], str(cwd or Path.cwd()), dict(os.environ if env is None else env))
        self._told, theirs = os.pipe()
        with contextlib.ExitStack() as stack:
            files = list(streams) or [stack.enter_context(Path(os.devnull).open("r+b"))] * 3
            _server.start(request, [*(file.fileno() for file in files), theirs])
        os.close(theirs)
        self.pid = int(self._line())
        self.returncode: int | None = None
        self.processor_s = 0.0

    def _line(self) -> str:
        found = b""
        while not found.endswith(b"\n"):
            piece = os.read(self._told, 1)
            assert piece, "the process with torch has died"
            found += piece
        return found.decode()

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, the negative number of a signal that ended it. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            status, _, processor_s = self._line().partition(" ")
            os.close(self._told)
            self.returncode, self.processor_s = os.waitstatus_to_exitcode(int(status)), float(processor_s)
        return self.returncode

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def terminate(self) -> None:
        """Ask it to end. Does nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it. Does nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def share() -> None:
    """Start the process with torch for this process and all that it starts: one loads what each of them would load."""
    folder = tempfile.mkdtemp()
    path = str(Path(folder) / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        held, process = _started(listener)

    def close() -> None:
        held.close()
        process.wait(10)
        shutil.rmtree(folder)

    atexit.register(close)
    os.environ[_SHARED] = path


def _started(*listener: socket.socket) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """The process with torch, which ends when the socket to it is closed."""
    ours, theirs = socket.socketpair()
    own = ("FIRSTFAULT_STRICT", "FIRSTFAULT_NATIVE")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FIRSTFAULT_") or k in own}
    with theirs:
        given = [s.fileno() for s in (theirs, *listener)]
        return ours, subprocess.Popen([sys.executable, __file__, *map(str, given)], pass_fds=given, env=environment)


class _Server:
    """The process with torch, as its clients see it."""

    def __init__(self) -> None:
        self._process = None
        if (shared := os.environ.get(_SHARED)) is not None:
            self._channel = socket.socket(socket.AF_UNIX)
            self._channel.connect(shared)
        else:
            self._channel, self._process = _started()
        atexit.register(self._close)

    def start(self, request: _Request, files: Sequence[int]) -> None:
        """Have it fork."""
        _send(self._channel, request, files)

    def _close(self) -> None:
        self._channel.close()
        if self._process is not None:
            self._process.wait(10)


def _send(channel: socket.socket, request: _Request, files: Sequence[int]) -> None:
    with tempfile.TemporaryFile() as file:  # a message that carries files has a limit of size; a file has none
        file.write(json.dumps(request).encode())
        file.seek(0)
        socket.send_fds(channel, [b"+"], [*files, file.fileno()])


def _receive(channel: socket.socket) -> tuple[_Request, list[int]] | None:
    """The next request, None when the other side is gone."""
    message, files, _, _ = socket.recv_fds(channel, 1, 5)
    if not message:
        return None
    with os.fdopen(files.pop(), "rb") as file:
        return _Request(*json.loads(file.read())), files


# --- the process with torch, and its forks

_RUNPY = "<frozen runpy>"
_COMMANDS_THAT_START = {"run": 1, "demo": 1, "preflight": 4}
"""Command of firstfault → how many processes it starts that may be forks."""


class _ExecError(BaseException):
    """The process becomes another program of this Python."""

    def __init__(self, _file: str, words: list[str], environment: Mapping[str, str]) -> None:
        self.words, self.environment = words[1:], dict(environment)


def _load() -> None:
    """Load what commands and trainings load, and start no thread."""
    os.fsync = lambda fd: None  # as conftest.py does
    for name in _LOADED:
        importlib.import_module(name)
    sys.modules["pyarrow"].array([1])  # loads pandas, where that is installed
    gc.collect()
    gc.freeze()  # what is loaded is nothing that a training gathers: no fork walks over it, or copies it


def _serve(first: socket.socket, listener: socket.socket | None) -> tuple[_Request, list[int]]:
    """Fork for each request, until nobody is at the other side of the first socket. Returns in the fork."""
    channels = {s.fileno(): s for s in (first, listener) if s is not None}
    while True:
        for number in select.select(list(channels), [], [])[0]:
            channel = channels[number]
            if channel is listener:
                client = listener.accept()[0]
                channels[client.fileno()] = client
            elif (received := _receive(channel)) is None:
                if channel is first:
                    os._exit(0)
                channels.pop(number).close()
            elif os.fork() == 0:
                for each in channels.values():
                    each.close()
                return _watched(*received)
            else:
                for file in received[1]:
                    os.close(file)
        with contextlib.suppress(ChildProcessError):  # whoever is waited for is counted by `time make test`
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _watched(request: _Request, files: list[int]) -> tuple[_Request, list[int]]:
    """Fork, and return in the fork; this process waits for it and tells how it ended."""
    told = files.pop()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        return request, files
    for file in files:
        os.close(file)
    os.write(told, f"{pid}\n".encode())
    _, status, used = os.wait4(pid, 0)
    os.write(told, f"{status} {used.ru_utime + used.ru_stime}\n".encode())
    os._exit(0)


class _Spare:
    """A fork that waits to become a process of the one that made it: its stack holds nothing but the waiting."""

    def __init__(self) -> None:
        self.became: tuple[_Request, list[int]] | None = None
        """In the fork: what it is to become."""
        self._channel, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._channel.close()
            self.became = _receive(theirs)
            theirs.close()
            if self.became is None:
                os._exit(0)
        theirs.close()

    def become(self, request: _Request, files: Sequence[int]) -> None:
        """Start it."""
        _send(self._channel, request, files)
        self._channel.close()

    def dismiss(self) -> None:
        """Let it end."""
        self._channel.close()
        os.waitpid(self.pid, 0)


def _start_from(spares: list[_Spare]) -> None:
    """Let the first Pythons that this process starts be the spare forks; further ones are started as ever."""
    usual = subprocess.Popen._execute_child

    def execute(
        self: Any, args: Any, executable: Any, preexec: Any, close: Any, given: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        words = [os.fspath(a) for a in args] if isinstance(args, (list, tuple)) else []
        if not spares or words[:1] != [sys.executable]:
            usual(self, args, executable, preexec, close, given, cwd, env, *rest)
            return
        pipes = rest[3:9]  # p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite
        request = _Request(words[1:], str(cwd or Path.cwd()), dict(os.environ if env is None else env))
        spare = spares.pop()
        spare.become(request, [f if f >= 0 else n for n, f in enumerate((pipes[0], pipes[3], pipes[5]))])
        self.pid, self._child_created = spare.pid, True
        self._close_pipe_fds(*pipes)

    subprocess.Popen._execute_child = execute


def _prepare(request: _Request, files: Sequence[int]) -> None:
    """Take over folder, environment and streams."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        if file > 2:
            os.close(file)
    os.chdir(request.folder)
    multiprocessing.process.ORIGINAL_DIR = (
        request.folder
    )  # where it was started: children look for the script from there
    os.environ.clear()
    os.environ.update(request.environment)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _sockets() -> tuple[socket.socket, socket.socket | None]:
    """That of the process which started this one, and the one that others connect to."""
    first, *others = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    return first, *(others or [None])


def _become() -> NoReturn:
    """The life of a fork, from the request on."""
    made: tuple[_Request, list[int]] | None = _serve(*_sockets())
    while made is not None:
        (request, files), made, spares = made, None, []
        if (
            request.arguments[0] == "-P"
        ):  # where it is started is not to be searched for modules; nothing of ours lies there
            del request.arguments[0]
        _prepare(request, files)
        if request.arguments[:2] == ["-m", "firstfault"]:
            for _ in range(_COMMANDS_THAT_START.get(request.arguments[2], 0)):
                spares.append(_Spare())
                made = spares[-1].became
                if made is not None:
                    break
    _start_from(spares)
    status = _status_of(request.arguments)
    for spare in spares:
        spare.dismiss()
    _end(status)


def _status_of(words: list[str]) -> int:
    """Run the script or module to its end, as Python does."""
    from firstfault.recorder.attach import attach_from_environment
    from firstfault.recorder.supervisor.torch_process import INJECT

    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != str(INJECT)]
    sys.path[0:1] = ["", *paths]
    os.execve = _exec
    try:
        if str(INJECT) in os.environ.get("PYTHONPATH", ""):
            attach_from_environment()
        _execute(words)
    except _ExecError as e:
        os.environ.clear()
        os.environ.update(e.environment)
        return _status_of(e.words)
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


def _exec(file: str, words: list[str], environment: Mapping[str, str]) -> NoReturn:
    assert file == sys.executable, file
    raise _ExecError(file, words, environment)


def _execute(words: list[str]) -> None:
    if words[0] == "-m":
        sys.path[0] = str(Path.cwd())
        sys.argv = words[1:]
        sys.modules.pop(words[1], None)  # runpy warns of what has been loaded
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
for _function in (_become, _status_of, _execute, _serve, _watched, _exec):
    _function.__code__ = _function.__code__.replace(co_filename=_RUNPY)


if __name__ == "__main__":
    _load()
    _become()
