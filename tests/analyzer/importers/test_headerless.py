"""Lines that a logger joins with commas have no header: a text that is the same in every row names the cell behind it."""

import pytest
from firstfault.analyzer import Trace
from firstfault.analyzer.errors import ImportFileError
from firstfault.analyzer.importers import import_files


def test_cells_are_named_by_the_text_before_them(tmp_path):
    rows = "".join(
        f"2022-10-25 11:24:{n:02d},072, INFO, trainLogger, Train Loss, {2 - n / 10},  Avg Loss, 0.5, Accuracy, 1.0\n"
        for n in range(12)
    )
    (tmp_path / "train.log").write_text(rows)
    import_files([tmp_path / "train.log"], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT loss FROM steps ORDER BY step")["loss"].to_list() == [2 - n / 10 for n in range(12)]
        assert trace.sql("SELECT DISTINCT name FROM metrics ORDER BY name")["name"].to_list() == [
            "Accuracy",
            "Avg Loss",
        ]


def test_numbers_beside_texts_that_change_have_no_names(tmp_path):
    (tmp_path / "t.csv").write_text("".join(f"cat{n},{n},{n / 2}\n" for n in range(9)))
    with pytest.raises(ImportFileError, match="its columns have no names"):
        import_files([tmp_path / "t.csv"], tmp_path / "run", "0")


def test_fairseq_under_hydra_is_read(tmp_path):
    line = (
        '[2022-04-08 18:48:05,372][train_inner][INFO] - {{"loss": "{loss}", "num_updates": "{step}", "lr": "1e-05"}}\n'
    )
    valid = '[2022-04-08 18:58:04,035][valid][INFO] - {"epoch": 1, "valid_loss": "6.5", "valid_num_updates": "600"}\n'
    (tmp_path / "hydra_train.log").write_text("".join(line.format(loss=9 - n, step=200 * n) for n in (1, 2, 3)) + valid)
    import_files([tmp_path / "hydra_train.log"], tmp_path / "run", "0")
    with Trace(tmp_path / "run") as trace:
        assert trace.sql("SELECT step, loss FROM steps ORDER BY step").rows() == [(200, 8.0), (400, 7.0), (600, 6.0)]
        assert trace.sql("SELECT value FROM metrics WHERE name = 'valid/loss'").item() == 6.5
