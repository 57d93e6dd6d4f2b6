"""The charts' script is put together once per machine, and a damaged copy is never used."""

import pytest
from firstfault.reports.charts import vega


@pytest.fixture
def made(monkeypatch, tmp_path):
    """An empty cache folder, and a bundle that counts how often it is made."""
    calls = []

    def bundle():
        calls.append(1)
        return "window.vegaEmbed = 1;"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(vega.vl_convert, "javascript_bundle", bundle)
    vega.vega_bundle.cache_clear()
    yield calls
    vega.vega_bundle.cache_clear()


def again():
    vega.vega_bundle.cache_clear()
    return vega.vega_bundle()


def test_it_is_made_once(made):
    assert vega.vega_bundle() == again() == again()
    assert len(made) == 1


def test_a_damaged_copy_is_made_anew(made, tmp_path):
    vega.vega_bundle()
    [kept] = (tmp_path / "cache" / "firstfault").iterdir()
    kept.write_text("window.hacked = 1;")
    assert again() == "window.vegaEmbed = 1;"
    assert len(made) == 2


def test_without_a_place_to_keep_it_pages_are_written_all_the_same(made, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder would be")
    assert vega.vega_bundle() == again()
    assert len(made) == 2


def test_a_bundle_that_would_end_its_element_is_refused(made, monkeypatch):
    monkeypatch.setattr(vega.vl_convert, "javascript_bundle", lambda: "x = '</SCRIPT>'")
    with pytest.raises(vega.ReportError, match="no page can hold"):
        vega.vega_bundle()
