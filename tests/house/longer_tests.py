"""Write tests/longer_tests.txt: the tests that `make quick` leaves out, from how long they took in `make test`.

    make test PYTEST_ARGS=--junitxml=took.xml
    python tests/house/longer_tests.py took.xml

A test with many cases is judged by their mean.
"""

import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path
from statistics import fmean

TESTS = Path(__file__).parents[1]
LONGER_S = 0.1
"""Some five thousand tests below it take less than two minutes together, on two cores."""


def longer_tests(junit: Path) -> list[str]:
    """Node ids without parameters of the tests whose cases took longer on average."""
    took: defaultdict[str, list[float]] = defaultdict(list)
    for case in ET.parse(junit).getroot().iter("testcase"):  # noqa: S314 # written by pytest a moment ago
        file = case.get("classname", "").replace(".", "/") + ".py"
        took[f"{file}::{case.get('name', '').split('[', 1)[0]}"].append(float(case.get("time", "0")))
    return sorted(test for test, seconds in took.items() if fmean(seconds) > LONGER_S)


if __name__ == "__main__":
    found = longer_tests(Path(sys.argv[1]))
    (TESTS / "longer_tests.txt").write_text("".join(f"{test}\n" for test in found))
    print(f"{len(found)} tests take longer than {LONGER_S} s")
