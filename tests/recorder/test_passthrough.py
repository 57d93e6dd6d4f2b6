"""A script whose output is a terminal sees a terminal."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

LOOK = """
import json, os, signal, sys, time
resized = []
signal.signal(signal.SIGWINCH, lambda *a: resized.append(1))
interrupts = []
signal.signal(signal.SIGINT, lambda *a: interrupts.append(1))
print(json.dumps({"tty": [os.isatty(i) for i in range(3)], "size": list(os.get_terminal_size(1))}), flush=True)
sys.stderr.write("to stderr\\n")
deadline = time.monotonic() + 20
while not interrupts and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.3)
print(json.dumps({"interrupts": len(interrupts), "size": list(os.get_terminal_size(1))}), flush=True)
sys.exit(9)
"""


def _in_a_terminal(command, cwd, env, act):
    """Run ``command`` in a terminal of 33 x 101; ``act(fd)`` after its first line. Gives output and status."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
        os.execvpe(command[0], command, env)  # noqa: S606
    output = b""
    acted = False
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            output += data
            if not acted and b"to stderr" in output:
                acted = True
                act(fd)
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return output, os.waitstatus_to_exitcode(status)


def test_in_a_terminal_the_script_sees_one_and_ctrl_c_arrives_once(bench):
    bench.write(LOOK)

    def act(fd):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        time.sleep(0.2)
        os.write(fd, b"\x03")

    plain, plain_status = _in_a_terminal([sys.executable, "script.py"], bench.folder, bench.environment(), act)
    recorded, status = _in_a_terminal(bench.command("script.py"), bench.folder, bench.environment(), act)
    assert status == plain_status == 9
    assert recorded.partition(b"firstfault: ")[0] == plain
    lines = [json.loads(found) for found in re.findall(rb"\{.*\}", plain)]
    assert lines == [{"tty": [True, True, True], "size": [101, 33]}, {"interrupts": 1, "size": [80, 40]}]


def test_closing_the_terminal_ends_the_script_as_without_us(bench):
    bench.write("import time\nprint('to stderr', flush=True)\ntime.sleep(60)")
    pid, fd = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may have been started under nohup
        os.chdir(bench.folder)
        command = bench.command("script.py")
        os.execvpe(command[0], command, bench.environment())  # noqa: S606
    while b"to stderr" not in os.read(fd, 4096):
        pass
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGHUP
