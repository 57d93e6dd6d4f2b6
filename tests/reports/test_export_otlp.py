"""A run sent to a local collector that speaks OTLP over HTTP: what arrives equals the run's tables."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from firstfault.analyzer import AnalyzerError, Trace, diagnose
from firstfault.analyzer.export.otlp import GAUGES, export_otlp

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def collector():
    taken = {"/v1/traces": [], "/v1/metrics": []}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                raise AssertionError
            taken[self.path].append(body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", taken
    server.shutdown()
    thread.join()
    server.server_close()


def spans_of(taken):
    requests = [ExportTraceServiceRequest.FromString(body) for body in taken["/v1/traces"]]
    return [span for r in requests for rs in r.resource_spans for ss in rs.scope_spans for span in ss.spans]


def points_of(taken):
    found = {}
    for body in taken["/v1/metrics"]:
        for rm in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for sm in rm.scope_metrics:
                for metric in sm.metrics:
                    for point in metric.gauge.data_points:
                        attributes = {a.key: a.value.int_value for a in point.attributes}
                        value = getattr(point, point.WhichOneof("value"))
                        found[metric.name, attributes["rank"], attributes["step"]] = value, point.time_unix_nano
    return found


def run_of(run_folder):
    run = run_folder()
    for step in range(12):
        run.step(step, loss=2.0 / (step + 1) if step < 9 else float("nan"), grad_norm=0.5)
    return run.write()


def test_spans_and_points_that_arrive_equal_the_tables(run_folder, collector):
    url, taken = collector
    with Trace(run_of(run_folder)) as trace:
        sent = export_otlp(trace, url)
        rows = trace.sql("SELECT * FROM steps ORDER BY step").to_dicts()
        causes = diagnose(trace).causes
    spans = spans_of(taken)
    assert sent["spans"] == len(spans) == 13
    steps = {next(a.value.int_value for a in s.attributes if a.key == "step"): s for s in spans if s.name == "step"}
    root = next(s for s in spans if s.name == "run")
    for row in rows:
        span = steps[row["step"]]
        assert span.end_time_unix_nano == row["time_ns"]
        assert span.end_time_unix_nano - span.start_time_unix_nano == row["step_ns"]
        assert span.parent_span_id == root.span_id
    assert {f"finding.{cause.name}" for cause in causes} <= {event.name for event in root.events}
    points = points_of(taken)
    assert sent["points"] == len(points)
    for column in ("loss", "grad_norm", "step_ns"):
        for row in rows:
            if row[column] is not None:
                value, time = points[GAUGES[column][0], row["rank"], row["step"]]
                assert time == row["time_ns"]
                assert value == pytest.approx(row[column], nan_ok=True)


def test_a_collector_that_does_not_answer_is_an_error(run_folder, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with Trace(run_of(run_folder)) as trace, pytest.raises(AnalyzerError, match="did not take"):
        export_otlp(trace, "http://127.0.0.1:9")
