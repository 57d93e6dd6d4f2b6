"""What a script pays that does nothing but `import torch`: plain and under `firstfault run`, in turn.

    python tests/benchmarks/bare_import.py [--pairs 15]

Printed are medians over the pairs, in seconds: of the clock from start to end, and of the processor for all processes.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path


def taken(tool: Sequence[str], script: Path) -> tuple[float, float]:
    """Seconds of the clock and of the processor of one process and its children."""

    def processor() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    began, before = time.perf_counter(), processor()
    subprocess.run([sys.executable, *tool, str(script)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began, processor() - before


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / "script.py"
        script.write_text("import torch\n")
        pairs = []
        for number in range(given.pairs):
            tool = ["-m", "firstfault", "run", "--quiet", "--out", f"{place}/run{number}"]
            pairs.append((taken([], script), taken(tool, script)))
    print("| | plain | recorded | more | least – most |\n|---|---|---|---|---|")
    for at, clock in enumerate(("clock", "processor")):
        plain, recorded = ([each[side][at] for each in pairs] for side in (0, 1))
        more = [b - a for a, b in zip(plain, recorded, strict=True)]
        middle = [statistics.median(each) for each in (plain, recorded, more)]
        print(f"| {clock} | {' | '.join(f'{m:.2f} s' for m in middle)} | {min(more):.2f} – {max(more):.2f} s |")


if __name__ == "__main__":
    main()
