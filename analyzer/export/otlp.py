"""A run as OpenTelemetry: steps as spans, losses, norms and times as gauges, events and findings as events of the run's span.

Sent over HTTP to a collector (OTLP, protobuf) by the OpenTelemetry SDK, which the extra ``otlp`` installs. Times are
those of the run.
"""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

from ..diagnosis.diagnose import diagnose, plain
from ..errors import AnalyzerError
from ..reading.trace import Trace
from ..rules.thresholds import rules_for

_STEPS = (
    "SELECT rank, step, time_ns, step_ns, loss, grad_norm, loss_scale, data_wait_ns, forward_ns, backward_ns, optimizer_ns,"
    " rss_bytes, cuda_peak_bytes, completed, stepped FROM steps WHERE time_ns IS NOT NULL ORDER BY rank, time_ns"
)
_EVENTS = "SELECT rank, time_ns, step, event, message FROM events ORDER BY time_ns"

GAUGES = {
    "loss": ("training.loss", "1"),
    "grad_norm": ("training.gradient_norm", "1"),
    "loss_scale": ("training.loss_scale", "1"),
    "step_ns": ("training.step_time", "ns"),
    "data_wait_ns": ("training.data_wait", "ns"),
    "forward_ns": ("training.forward_time", "ns"),
    "backward_ns": ("training.backward_time", "ns"),
    "optimizer_ns": ("training.optimizer_time", "ns"),
    "rss_bytes": ("process.memory.resident", "By"),
    "cuda_peak_bytes": ("training.device_memory_peak", "By"),
}
"""Column of steps → name and unit of its gauge."""

_BATCH = 500
"""Spans, and points of a gauge, in one request."""


def export_otlp(trace: Trace, url: str) -> dict[str, int]:
    """Send a run to a collector; how many spans, points and findings it took. Raises AnalyzerError where it did not."""
    try:
        sdk = _sdk()
    except ImportError as e:
        raise AnalyzerError(f"--otlp needs the OpenTelemetry SDK ({e}); next: pip install 'firstfault[otlp]'") from None
    verdict = diagnose(trace, rules_for(trace.path, None))
    steps = trace.sql(_STEPS).to_dicts()
    if not steps:
        raise AnalyzerError(f"{trace.path}: no step has a time, so nothing can be sent")
    resource = sdk.Resource.create(
        {"service.name": "firstfault", "firstfault.run_id": verdict.run.run_id, "firstfault.verdict": verdict.verdict}
    )
    base = url.rstrip("/")
    spans = _Spans(sdk, resource, base)
    findings = [*verdict.causes, *verdict.symptoms]
    times = {(row["rank"], row["step"]): int(row["time_ns"]) for row in steps}
    first = min(int(row["time_ns"]) - int(row["step_ns"] or 0) for row in steps)
    last = max(times.values())
    root = spans.begin(
        "run", first, {"firstfault.steps": verdict.run.steps_recorded, "firstfault.status": verdict.run.status}
    )
    for row in trace.sql(_EVENTS).to_dicts():
        about = {"rank": row["rank"], "step": row["step"], "message": row["message"]}
        root.add_event(row["event"], _kept(about), int(row["time_ns"]))
    for finding in findings:
        about = {
            key: getattr(finding, key)
            for key in ("code", "severity", "step", "rank", "module", "tensor", "message", "fix")
        }
        about["explained_by"] = finding.explained_by
        root.add_event(f"finding.{finding.name}", _kept(about), times.get((finding.rank, finding.step), last))
    for row in steps:
        start = int(row["time_ns"]) - int(row["step_ns"] or 0)
        span = spans.begin("step", start, _kept({k: v for k, v in row.items() if k != "time_ns"}), root)
        span.end(int(row["time_ns"]))
    root.end(last)
    spans.close()
    points = _send_metrics(sdk, resource, base, steps)
    return {"spans": len(steps) + 1, "points": points, "findings": len(findings)}


def _kept(values: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(value) for key, value in values.items() if value is not None}


class _Spans:
    """The SDK's own tracer and batches."""

    def __init__(self, sdk: Any, resource: Any, base: str) -> None:
        self.sdk = sdk
        self._exporter = sdk.OTLPSpanExporter(endpoint=f"{base}/v1/traces")
        self._collected = sdk.InMemorySpanExporter()
        self._base = base
        self.provider = sdk.TracerProvider(resource=resource, sampler=sdk.ALWAYS_ON)
        self.provider.add_span_processor(sdk.SimpleSpanProcessor(self._collected))
        self.tracer = self.provider.get_tracer("firstfault")

    def begin(self, name: str, start: int, attributes: dict[str, Any], parent: Any = None) -> Any:
        """A span that began then."""
        context = None if parent is None else self.sdk.set_span_in_context(parent)
        return self.tracer.start_span(name, context=context, attributes=attributes, start_time=start)

    def close(self) -> None:
        """Send all of them. Raises AnalyzerError where the collector did not take them."""
        spans = list(self._collected.get_finished_spans())
        for at in range(0, len(spans), _BATCH):
            _check(self._exporter.export(spans[at : at + _BATCH]), self._base)
        self.provider.shutdown()
        self._exporter.shutdown()


def _send_metrics(sdk: Any, resource: Any, base: str, steps: list[dict[str, Any]]) -> int:
    exporter = sdk.OTLPMetricExporter(endpoint=f"{base}/v1/metrics")
    scope = sdk.InstrumentationScope("firstfault")
    count = 0
    for column, (name, unit) in GAUGES.items():
        points = [
            sdk.NumberDataPoint(
                attributes={"rank": row["rank"], "step": row["step"]},
                start_time_unix_nano=int(row["time_ns"]),
                time_unix_nano=int(row["time_ns"]),
                value=row[column],
            )
            for row in steps
            if row[column] is not None
        ]
        for at in range(0, len(points), _BATCH):
            gauge = sdk.Gauge(data_points=points[at : at + _BATCH])
            metric = sdk.Metric(name=name, description="", unit=unit, data=gauge)
            scoped = sdk.ScopeMetrics(scope=scope, metrics=[metric], schema_url="")
            data = sdk.MetricsData(
                resource_metrics=[sdk.ResourceMetrics(resource=resource, scope_metrics=[scoped], schema_url="")]
            )
            _check(exporter.export(data), base)
        count += len(points)
    exporter.shutdown()
    return count


def _check(answer: Any, base: str) -> None:
    if getattr(answer, "name", "") != "SUCCESS":
        raise AnalyzerError(f"{base}: the collector did not take the data; check that it speaks OTLP over HTTP there")


_NAMES = {
    "exporter.otlp.proto.http.metric_exporter": ("OTLPMetricExporter",),
    "exporter.otlp.proto.http.trace_exporter": ("OTLPSpanExporter",),
    "sdk.metrics.export": ("Gauge", "Metric", "MetricsData", "NumberDataPoint", "ResourceMetrics", "ScopeMetrics"),
    "sdk.resources": ("Resource",),
    "sdk.trace": ("TracerProvider",),
    "sdk.trace.export": ("SimpleSpanProcessor",),
    "sdk.trace.export.in_memory_span_exporter": ("InMemorySpanExporter",),
    "sdk.trace.sampling": ("ALWAYS_ON",),
    "sdk.util.instrumentation": ("InstrumentationScope",),
    "trace": ("set_span_in_context",),
}


def _sdk() -> Any:
    """All that is used of the SDK, by name. Raises ImportError."""
    modules = {name: import_module(f"opentelemetry.{name}") for name in _NAMES}
    return SimpleNamespace(**{n: getattr(modules[module], n) for module, names in _NAMES.items() for n in names})
