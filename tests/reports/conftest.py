"""Run folders and verdicts made by hand, so that a test of a reporter needs neither torch nor a training; a real browser."""

import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firstfault.analyzer.verdict import Finding, FirstAnomaly, NotEvaluable, RunFacts, Verdict
from firstfault.schemas import TABLES, ExitRecord, Phase, RunManifest, write_json
from firstfault.schemas.files.layout import EXIT_JSON, RUN_JSON, part_path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
STARTED = 1_750_000_000_000_000_000


@dataclass
class RunFolder:
    """Collects rows and writes them as a run folder; columns that a row does not name are null."""

    path: Path
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    exit: ExitRecord | None = None
    config: dict[str, Any] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> None:
        unknown = set(row) - set(TABLES[table].column_names)
        assert not unknown, unknown
        self.rows.setdefault(table, []).append({"rank": 0, **row} if "rank" in TABLES[table].column_names else row)

    def step(self, step: int, **values: Any) -> None:
        given = {
            "completed": True,
            "stepped": True,
            "optimizer_id": 0,
            "loss": 3.0,
            "grad_norm": 1.0,
            "microbatches": 1,
        }
        given |= {"step_ns": 20_000_000, "data_wait_ns": 500_000, "recorder_ns": 600_000, "journal_bytes": 9_000}
        lr = values.pop("lr", 1e-3)
        update = values.pop("update_norm", 0.01)
        self.add("steps", step=step, time_ns=STARTED + step * 20_000_000, **given | values)
        self.add(
            "param_groups",
            step=step,
            optimizer_id=0,
            group_id=0,
            optimizer="AdamW",
            lr=lr,
            update_norm=update,
            weight_norm=1.0,
        )

    def module(self, module_id: int, name: str, **values: Any) -> None:
        given = {
            "model": "model",
            "class_name": "Linear",
            "depth": name.count(".") + bool(name),
            "call_order": module_id,
        }
        self.add("modules", module_id=module_id, module=name, **given | {"own_numel": 10} | values)
        for kind, suffix in (
            ("activation", ":output0"),
            ("activation_gradient", ":output0.grad"),
            ("gradient", ".weight"),
        ):
            tensor_id = self.tensor_id(module_id, kind)
            name_of_tensor = f"{name}{suffix}"
            self.add(
                "tensors", tensor_id=tensor_id, tensor_name=name_of_tensor, kind=kind, module_id=module_id, shape=[4, 8]
            )

    @staticmethod
    def tensor_id(module_id: int, kind: str) -> int:
        return module_id * 10 + ("activation", "activation_gradient", "gradient").index(kind)

    def stat(self, step: int, module_id: int, rms: float | None, kind: str = "activation", **values: Any) -> None:
        given = {"microbatch": 0, "phase": int(Phase.FORWARD), "numel": 32, "nan_count": 0, "inf_count": 0}
        if rms is None:
            given["nan_count"] = 32
        else:
            given |= {"sum_sq": 32 * rms * rms, "sum": 0.0, "min": -rms, "max": rms}
        row = given | values
        self.add("tensor_stats", step=step, seq=module_id, tensor_id=self.tensor_id(module_id, kind), **row)

    def write(self) -> Path:
        self.path.mkdir(parents=True, exist_ok=True)
        manifest = RunManifest(
            run_id=self.path.name,
            firstfault_version="0.1.0",
            argv=["train.py", "--lr", "1e-3"],
            script="train.py",
            cwd=str(self.path.parent),
            started_ns=STARTED,
            hostname="host",
            pid=1,
            python="3.11.9",
            platform="Linux",
            config=self.config,
        )
        write_json(self.path / RUN_JSON, manifest)
        if self.exit is not None:
            write_json(self.path / EXIT_JSON, self.exit)
        for name, rows in self.rows.items():
            target = part_path(self.path, 0, name, 0)
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows, schema=TABLES[name].schema), target)
        return self.path


@pytest.fixture
def run_folder(tmp_path: Path) -> Callable[..., RunFolder]:
    def make(name: str = "run", *, status: str | None = "completed", **exit_values: Any) -> RunFolder:
        return new_run(tmp_path / name, status, **exit_values)

    return make


def new_run(path: Path, status: str | None = "completed", **exit_values: Any) -> RunFolder:
    record = None
    if status is not None:
        given: dict[str, Any] = {"exit_code": 0 if status == "completed" else 1, "ended_ns": STARTED + 5 * 10**9}
        record = ExitRecord(status=status, **given | exit_values)
    return RunFolder(path, exit=record)


@pytest.fixture
def broken_run(run_folder: Callable[..., RunFolder]) -> RunFolder:
    """Forty steps of three modules; at step 30 `blocks.0.attn` and all behind it give NaN, and the loss is NaN from 31."""
    return broken(run_folder())


@pytest.fixture(scope="session")
def page_of_broken_run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What its page says, as data, for tests that only look at it."""
    from firstfault.analyzer import Trace
    from firstfault.reports.page.data import reduce_page

    with Trace(broken(new_run(tmp_path_factory.mktemp("broken") / "run")).write()) as trace:
        return reduce_page(trace, verdict_of())


@pytest.fixture(scope="session")
def report_of_broken_run(page_of_broken_run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its page, for tests that only look at it."""
    from firstfault.reports.page.render import render_page

    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_page(page_of_broken_run), "utf-8")
    return path


def broken(run: RunFolder) -> RunFolder:
    for module_id, name in enumerate(("", "tokens", "blocks.0.attn", "head")):
        run.module(module_id, name, class_name="GPT" if not name else "Linear")
    for step in range(40):
        broken = step >= 30
        run.step(step, loss=math.nan if step > 30 else 5 - step / 20, grad_norm=math.nan if broken else 1.0)
        for module_id in range(4):
            bad = broken and (module_id != 1 or step > 30)
            run.stat(step, module_id, None if bad else 1.0 + module_id)
    return run


def finding(**values: Any) -> Finding:
    given: dict[str, Any] = {
        "code": "NU004",
        "name": "fully-masked-attention-row",
        "severity": "fatal",
        "confidence": None,
        "confidence_cases": 0,
        "step": 30,
        "step_lower": values.get("step", 30),
        "rank": 0,
        "microbatch": 0,
        "seq": 2,
        "phase": "forward",
        "module": "blocks.0.attn",
        "tensor": "blocks.0.attn:output0",
        "signal": "non-finite activation",
        "value": math.nan,
        "message": "blocks.0.attn gave NaN at step 30: 64 of its 768 mask rows mask everything.",
        "fix": "Leave at least one key unmasked in each row.",
        "evidence": [
            {"step": 30, "op": "MaskedFill", "rows": 768, "full_rows": 64, "shape": [12, 64], "max": math.inf}
        ],
        "sql": "SELECT step, op, full_rows\nFROM operators\nWHERE full_rows > 0",
        "explains": ["nonfinite-loss"],
    }
    return Finding(**given | values)


@pytest.fixture
def make_finding() -> Callable[..., Finding]:
    return finding


def verdict_of(conclusion: str = "anomalous", *, path: Path | str = "run", **values: Any) -> Verdict:
    run = RunFacts(
        run_id="run",
        path=str(path),
        status=values.pop("status", "completed"),
        exit=values.pop("exit", {"exit_code": 0}),
        world_size=1,
        steps_recorded=values.pop("steps_recorded", 40),
        last_durable_step=39,
    )
    given: dict[str, Any] = {"first_anomaly": None, "causes": [], "symptoms": [], "not_evaluable": []}
    if conclusion == "anomalous":
        given["causes"] = [finding()]
        given["symptoms"] = [
            finding(
                code="NU900",
                name="nonfinite-loss",
                step=31,
                phase="loss",
                module=None,
                message="The loss is NaN from step 31 on.",
                explained_by="fully-masked-attention-row",
            )
        ]
        given["not_evaluable"] = [NotEvaluable(code="NU008", name="loss-scale-collapse", why="no GradScaler was used")]
        given["first_anomaly"] = FirstAnomaly(
            step=30,
            step_lower=30,
            step_upper=30,
            microbatch=0,
            rank=0,
            phase="forward",
            module="blocks.0.attn",
            tensor="blocks.0.attn:output0",
            signal="non-finite activation",
            value=math.nan,
        )
    return Verdict(run=run, verdict=conclusion, **given | values)


@pytest.fixture
def found_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of a batch that can be read is called healthy at once, for claims that do not concern what is found."""
    from firstfault.reports.batch import run

    monkeypatch.setattr(run, "diagnose", lambda trace, _rules: verdict_of("healthy", path=trace.path))


@pytest.fixture
def drawn_at_once(monkeypatch: pytest.MonkeyPatch, report_of_broken_run: Path) -> None:
    """Every page of a batch is the same one, for claims that do not concern what is on it."""
    from firstfault.reports.page import render

    def copy(_trace: Any, _verdict: Verdict, path: Path) -> None:
        path.write_bytes(report_of_broken_run.read_bytes())

    monkeypatch.setattr(render, "write_page", copy)


@pytest.fixture
def make_verdict() -> Callable[..., Verdict]:
    return verdict_of


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        pytest.fail("the tests of pages need chromium; install it (apt-get install chromium), or run `make test`")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Opened:
    """A page in the browser with everything that it said and asked for."""

    def __init__(self, browser: Any, path: Path, *, scheme: str = "light", width: int = 1440) -> None:
        self.context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda m: self.said.append(f"{m.type}: {m.text}"))
        self.page.on("pageerror", lambda e: self.said.append(f"error: {e}"))
        self.page.on("dialog", lambda d: (self.said.append(f"dialog: {d.message}"), d.dismiss()))
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.page.goto(path.as_uri())

    def drawn(self) -> "Opened":
        """Wait for every chart of the page."""
        self.page.wait_for_selector("html[data-curves=drawn][data-health=drawn]", timeout=20_000)
        return self

    def colour(self, selector: str, name: str) -> str:
        return self.page.locator(selector).first.evaluate(f"e => getComputedStyle(e).{name}")


@pytest.fixture
def open_page(browser: Any) -> Callable[..., Opened]:
    def open_(path: Path, **options: Any) -> Opened:
        return Opened(browser, path, **options)

    return open_


@pytest.fixture
def luminance() -> Callable[[str], float]:
    """Relative luminance of a CSS rgb() colour, by WCAG 2."""

    def of(colour: str) -> float:
        parts = [float(p) / 255 for p in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    return of
