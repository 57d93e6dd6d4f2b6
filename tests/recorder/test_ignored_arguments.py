"""Settings that a class is given and does not read are found in the source; those that count are not."""

import ast

import pytest
from firstfault.recorder.script.slips import slips_of

CLASS = """
class Encoder(nn.Module):
    def __init__(self, width, dropout=0.1, verbose=False):
        super().__init__()
        self.fc = nn.Linear(width, width)
        {line}
    def forward(self, x):
        return {forward}

model = Encoder({given})
"""


@pytest.mark.parametrize(
    ("line", "forward", "given", "found"),
    [
        ("pass", "self.fc(x)", "8, dropout=0.3", ["dropout"]),
        ("pass", "self.fc(x)", "8, 0.3", ["dropout"]),
        ("self.dropout = dropout", "self.fc(x)", "8, args.dropout", ["dropout"]),
        ("self.dropout = dropout", "F.dropout(self.fc(x), self.dropout)", "8, 0.3", []),
        ("self.drop = nn.Dropout(dropout)", "self.fc(x)", "8, 0.3", []),
        ("self.__dict__.update(locals())", "self.fc(x)", "8, 0.3", []),
        ("self.p = dropout", "F.dropout(self.fc(x), getattr(self, 'p'))", "8, 0.3", []),
        ("pass", "self.fc(x)", "8", []),
        ("pass", "self.fc(x)", "8, dropout=0.1", []),
        ("pass", "self.fc(x)", "8, dropout=0", []),
        ("pass", "self.fc(x)", "8, dropout=None", []),
        ("pass", "self.fc(x)", "8, verbose=True", []),
        ("pass", "self.fc(x)", "*sizes, dropout=0.3", []),
    ],
)
def test_settings_that_nothing_reads_are_found(line: str, forward: str, given: str, found: list[str]) -> None:
    text = CLASS.replace("{line}", line).replace("{forward}", forward).replace("{given}", given)
    assert [slip.name for slip in slips_of(ast.parse(text), text).ignored] == found


def test_what_is_defined_twice_or_a_function_is_left_alone() -> None:
    one = "class Loss:\n    def __init__(self, weight):\n        self.sum = 0\n"
    call = "\nloss = Loss(weight=2.0)\n"
    assert slips_of(ast.parse(f"{one}{one}{call}"), f"{one}{one}{call}").ignored == ()
    assert [slip.name for slip in slips_of(ast.parse(one + call), one + call).ignored] == ["weight"]
    function = f"def Loss(x, weight=1.0):\n    return x.mean()\n{call}"
    assert slips_of(ast.parse(function), function).ignored == ()
