"""An alert is sent once, with the facts of the verdict, to a command or an address."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO

import pytest
from firstfault.analyzer import Trace, diagnose
from firstfault.reports.alert import check, send
from firstfault.reports.commands.watch import Alarm
from firstfault.reports.text.errors import ReportError
from rich.console import Console


@pytest.fixture
def verdict(broken_run):
    with Trace(broken_run.write()) as trace:
        return diagnose(trace)


@pytest.fixture
def server():
    posted = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{http.server_port}/hook", posted
    http.shutdown()
    thread.join()
    http.server_close()


def test_the_facts_of_the_verdict_are_posted_once(verdict, server):
    address, posted = server
    alarm = Alarm(check(address), Console(file=StringIO()))
    alarm.seen(verdict)
    alarm.seen(verdict)
    assert len(posted) == 1
    cause = verdict.causes[0]
    assert posted[0]["verdict"] == "anomalous"
    assert (posted[0]["cause"]["code"], posted[0]["cause"]["step"]) == (cause.code, cause.step)


def test_a_command_gets_the_same_on_its_stdin(verdict, tmp_path):
    file = tmp_path / "got.json"
    code = f"import sys; open({str(file)!r}, 'w').write(sys.stdin.read())"
    assert send(f'{sys.executable} -c "{code}"', verdict) is None
    assert json.loads(file.read_text())["cause"]["name"] == verdict.causes[0].name


def test_a_healthy_run_sends_nothing_and_what_cannot_be_reached_is_said_once(verdict, tmp_path):
    said = StringIO()
    alarm = Alarm("/no/such/command", Console(file=said))
    verdict.verdict = "healthy"
    alarm.seen(verdict)
    assert said.getvalue() == ""
    verdict.verdict = "anomalous"
    alarm.seen(verdict)
    alarm.seen(verdict)
    assert said.getvalue().count("[alert]") == 1
    assert not alarm.sent


@pytest.mark.parametrize("target", ["", '"unclosed'])
def test_what_is_neither_an_address_nor_a_command_is_refused(target):
    with pytest.raises(ReportError, match="--alert"):
        check(target)
