"""The garbage collector leaves alone what libraries have loaded, and nothing that a script may let go of."""

import pytest
from firstfault.analyzer import Trace

pytestmark = pytest.mark.new_process

OLDER_THAN_TORCH = """
KEPT = []
import torch
model = torch.nn.Linear(20, 1)
for _ in range(30):
    model(torch.randn(40, 20)).square().mean().backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.01 * weight.grad
            weight.grad = None
    KEPT.append(torch.zeros(700, 1000))
"""


def test_a_list_that_is_older_than_torch_is_named_though_no_search_for_garbage_sees_it(bench) -> None:
    bench.write(OLDER_THAN_TORCH + "import gc\nassert gc.get_freeze_count() > 1000\n")
    recorded = bench.record("script.py")
    assert recorded.returncode == 0, recorded.stderr.decode()
    with Trace(recorded.run) as trace:
        held = trace.sql("SELECT DISTINCT holder FROM memory_owners")["holder"].to_list()
    assert held == ["KEPT"]


NONE = "assert gc.get_freeze_count() == 0"
CASES = {
    "in a function": ("import gc\ndef load():\n    import torch\nload()", f"{NONE} and gc.isenabled()"),
    "no collector": ("import gc; gc.disable()", f"{NONE} and not gc.isenabled()"),
    "looked after": ("import gc; gc.freeze(); n = gc.get_freeze_count()", "assert gc.get_freeze_count() <= n"),
    "much data": ("import gc, numpy; held = numpy.ones(2**27)", NONE),
    "nanobind": ("import gc, duckdb", NONE),
}


@pytest.mark.parametrize(
    "case", ["in a function", *(pytest.param(c, marks=pytest.mark.suite) for c in list(CASES)[1:])]
)
def test_nothing_is_set_aside_where_the_script_may_let_go_of_it(bench, case: str) -> None:
    before, after = CASES[case]
    bench.write(f"{before}\nimport torch\n{after}\ntorch.nn.Linear(2, 1)\n")
    recorded = bench.record("script.py")
    assert recorded.returncode == 0, recorded.stderr.decode()
