"""The switch by which a script resumes, found in its source."""

import pytest
from firstfault.reports.reruns.rerun_script import Script
from firstfault.reports.reruns.resume_option import as_guessed, resume_option


@pytest.mark.parametrize(
    ("source", "args", "found"),
    [
        ("parser.add_argument('--resume', action='store_true')", (), ("--resume",)),
        (
            "p.add_argument('-r', '--continue-training', action='store_true', help='go on')",
            (),
            ("--continue-training",),
        ),
        ("p.add_argument('--auto_resume', action='store_true')", (), ("--auto_resume",)),
        ("p.add_argument('--resume', type=str, default='')", (), None),
        ("p.add_argument('--resume', action='store_true')", ("--resume",), None),
        ("p.add_argument('--no-resume', action='store_true')", (), None),
        ("p.add_argument('--resume', action='store_true')\np.add_argument('--restart', action='store_true')", (), None),
        ("print(", (), None),
    ],
)
def test_a_switch_that_resumes_is_read_in_the_source(tmp_path, source, args, found):
    (tmp_path / "train.py").write_text(source)

    assert resume_option(Script("train.py", args, False, tmp_path)) == found


def test_a_start_that_loads_nothing_with_a_guessed_switch_was_not_tried():
    nothing = ("resume", "resume", "failed", "The second start made no step from the checkpoint. It raised X: y")
    wrong = ("resume", "weights", "failed", "3 of 4 after loading are not those that were saved")

    assert [f[2] for f in as_guessed([nothing, wrong], ("--resume",))] == ["untried", "failed"]
    assert as_guessed([wrong], ("--resume",))[0][3].startswith("With --resume: 3 of 4")
