"""Lists that a loop fills in vain are found where their last element stands in their place; others are not."""

import ast

import pytest
from firstfault.recorder.script.slips import slips_of

SAMPLES = """
def make_batch(self):
    states, next_states = [], []
    for transition in self.data:
        state, next_state = transition
        states.append(state)
        next_states.append({appended})
    {after}
"""
_TAKEN = "return torch.tensor(states), torch.tensor(next_state)"


@pytest.mark.parametrize(
    ("appended", "after", "found"),
    [
        ("next_state", _TAKEN, True),
        ("[next_state]", _TAKEN, True),
        ("next_state", "return torch.tensor(np.array(states)), torch.stack(next_state)", False),
        ("next_state", "return torch.stack(states), torch.from_numpy(np.array(next_state))", True),
        ("next_state", "return torch.tensor(states), torch.tensor(next_states)", False),
        ("next_state", "print(next_state); return torch.tensor(states)", False),
        ("next_state", "return torch.tensor(next_state)", False),
        ("next_state", _TAKEN + ", next_states", False),
        ("next_state * 2", _TAKEN, False),
    ],
)
def test_a_list_whose_last_element_is_taken_is_found(appended: str, after: str, found: bool) -> None:
    text = SAMPLES.replace("{appended}", appended).replace("{after}", after)
    if "torch.stack(next_state)" in after:
        text = text.replace("states, next_states = [], []", "states = []").replace(
            "next_states.append(next_state)", "pass"
        )
    left = [(s.reason, s.target, s.called) for s in slips_of(ast.parse(text), text).discarded]
    assert left == ([("list_unread", "next_states", "next_state")] if found else [])
