"""Makes docs/tutorial.md and its pictures: runs every command in an empty folder and keeps what comes out.

    python tests/pictures/make_tutorial.py        (or `make pictures`; needs chromium)

The words stand in tutorial.md beside this file; what is in double braces is filled in here.
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import firstfault
from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
DOCS = Path(firstfault.__file__).parent / "docs"
SCRIPT = Path(firstfault.__file__).parent / "reports" / "demo_script" / "train_gpt.py"
MOST_BYTES = 200_000
COLUMNS = "110"

MASK = 'scores = scores.masked_fill(is_future | is_padding[:, None, None, :], float("-inf"))'
BETTER = """is_hidden = (is_future | is_padding[:, None, None, :]) & ~torch.eye(length, dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(is_hidden, float("-inf"))"""


def run(folder: Path, command: str, *, most: int | None = None, status: int | None = None) -> str:
    """A command as typed and what it printed, as a code block; of long outputs the last lines, and those round a mark."""
    words = (
        [sys.executable, "-m", *command.split()]
        if command.startswith("firstfault")
        else [sys.executable, *command.split()[1:]]
    )
    environment = os.environ | {"COLUMNS": COLUMNS, "NO_COLOR": "1", "PYTHONPATH": ""}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if status is not None and done.returncode != status:
        sys.exit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    said = [line.rstrip() for line in (done.stdout + done.stderr).strip().splitlines()]
    marked = next((i for i, line in enumerate(said) if "▶" in line), None)
    if most is not None and marked is not None:
        said = [*said[:2], "…", *said[marked - 3 : marked + 4], "…", *said[-most:]]
    elif most is not None and len(said) > most:
        said = ["…", *said[-most:]]
    return "\n".join(f"    {line}".rstrip() for line in [f"$ {command}", *said])


def edit(path: Path, old: str, new: str) -> str:
    """Change a file; returns the change as a code block."""
    before = path.read_text()
    if before.count(old) != 1:
        sys.exit(f"{path}: the line to be changed is not there once: {old}")
    after = before.replace(old, new)
    path.write_text(after)
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""))[3:]
    return "\n".join(f"    {line}" for line in lines)


def pictures(folder: Path) -> None:
    """The three screenshots, small enough for a repository."""
    target = DOCS / "pictures"
    target.mkdir(parents=True, exist_ok=True)
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("the pictures need chromium; on Debian: apt-get install chromium")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = _opened(browser, folder / "night-report.html")
        page.screenshot(path=target / "verdict.png")
        page.add_style_tag(content="* { position: static !important }")  # no bar of the page lies over a section
        page.click("#replay-mark")
        page.wait_for_timeout(500)
        page.locator("#replay").screenshot(path=target / "replay.png")
        page = _opened(browser, folder / "compare.html")
        page.add_style_tag(content="* { position: static !important }")
        page.locator("#curves").screenshot(path=target / "compare.png")
        browser.close()
    for path in target.glob("*.png"):
        if path.stat().st_size > MOST_BYTES:
            sys.exit(f"{path}: {path.stat().st_size} bytes, more than {MOST_BYTES}; take less of the page")


def _opened(browser: Any, path: Path) -> Any:
    page = browser.new_page(viewport={"width": 1080, "height": 820}, color_scheme="light")
    page.goto(path.as_uri())
    page.wait_for_selector("#curves-chart svg")
    page.wait_for_timeout(1500)
    return page


def main() -> None:
    """Run everything, then write the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = Path(shutil.copy(SCRIPT, folder))
        train = f"{script.name} --fault fully-masked-attention-row"
        made = {"night": run(folder, f"firstfault run --budget off --out night {train}", most=6)}
        made["diagnose"] = run(folder, "firstfault diagnose night", status=1)
        made["report"] = run(folder, "firstfault report night", status=0)
        made["replay"] = run(folder, "firstfault replay night", most=10, status=0)
        made["mre"] = (
            run(folder, "firstfault mre night", status=0) + "\n" + run(folder, "python night-mre.py", most=2, status=1)
        )
        made["diff"] = edit(script, MASK, BETTER)
        edit(folder / "night-mre.py", MASK, BETTER)
        made["mended"] = run(folder, "python night-mre.py", status=0)
        made["fixed"] = run(folder, f"firstfault run --budget off --out fixed {train}", most=3, status=0)
        made["fixed"] += "\n" + run(folder, "firstfault diagnose fixed", status=0)
        made["compare"] = run(folder, "firstfault compare night fixed -o compare.html", status=1)
        pictures(folder)
        text = re.sub(r"\{\{ (\w+) \}\}", lambda m: made[m[1]], (HERE / "tutorial.md").read_text())
        (DOCS / "tutorial.md").write_text(text.replace(str(folder.resolve()), ".").replace(str(folder), "."))


if __name__ == "__main__":
    main()
