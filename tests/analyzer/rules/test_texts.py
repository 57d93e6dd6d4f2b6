"""Every rule can be read in every language, and says the same there. rules/rule_cases.py looks at its sentences."""

import re

import pytest
import typer
from firstfault.analyzer import Rule, load_rules
from firstfault.analyzer.diagnosis.diagnose import finding_from_rows
from firstfault.analyzer.errors import RuleError
from firstfault.analyzer.language import speak, speaking
from firstfault.analyzer.rules.filling import fill
from firstfault.analyzer.rules.texts import fingerprint, in_words_of, rule_texts, text_of, title_of, worded
from firstfault.reports.commands.rules import explain, rules_command

RULES = load_rules()
BY_CODE = pytest.mark.parametrize("rule", RULES, ids=lambda r: r.header.code)


def placeholders(text: str) -> set[str]:
    """Columns that a text names, with their formats."""
    return set(re.findall(r"\{(\w+(?::[^{}]*)?)\}", text))


@BY_CODE
def test_every_rule_has_chinese_texts_with_the_same_placeholders(rule: Rule) -> None:

    text = rule_texts("zh").get(rule.header.code)
    assert text is not None, f"{rule.header.code} has no Chinese: add it to analyzer/words/zh/{rule.layer}.toml"
    assert placeholders(text.message) == placeholders(rule.header.message)
    assert placeholders(text.fix) == placeholders(rule.header.fix)
    for words in (text.title, text.message, text.fix, text.what, text.why, text.not_this, text.source):
        assert re.search(r"[\u4e00-\u9fff]", words) or re.fullmatch(r"\{\w+\}。?", words)


@BY_CODE
def test_the_chinese_is_that_of_the_english_as_it_stands(rule: Rule) -> None:
    h = rule.header
    said = [text for words in h.say.values() for text in words.values()]
    now = fingerprint(h.message, h.fix, h.doc.what, h.doc.why, h.doc.not_this, h.doc.source, *said)
    assert rule_texts("zh")[h.code].english == now, (
        f'the English of {h.code} has changed: read its Chinese in words/zh/{rule.layer}.toml, then put english = "{now}" there'
    )


@BY_CODE
def test_every_reason_has_words_in_chinese_with_the_same_placeholders(rule: Rule) -> None:
    english, chinese = rule.header.say, rule_texts("zh")[rule.header.code].say
    assert {column: set(words) for column, words in chinese.items()} == {c: set(words) for c, words in english.items()}
    for column, words in english.items():
        for reason, text in words.items():
            assert placeholders(chinese[column][reason]) == placeholders(text), (column, reason)


@BY_CODE
def test_every_reason_that_has_words_stands_in_the_select(rule: Rule) -> None:
    reasons = {reason for words in rule.header.say.values() for reason in words}
    assert {reason for reason in reasons if f"'{reason}'" not in rule.select} == set()


@BY_CODE
def test_what_a_pattern_takes_over_is_what_it_gives_back(rule: Rule) -> None:

    for column, patterns in rule_texts("zh")[rule.header.code].values.items():
        for english, chinese in patterns.items():
            assert placeholders(chinese) == placeholders(english), (column, english)


def test_there_are_no_texts_of_rules_that_do_not_exist() -> None:
    assert set(rule_texts("zh")) <= {r.header.code for r in RULES}


def test_words_in_values_are_said_in_the_language_of_the_text() -> None:
    with speaking("zh"):
        text = text_of("NU000", "nonfinite-tensor")
        assert text is not None
        told = worded(text, {"origin": "gradient the loss.weight", "phase": "forward", "module": "the loss", "step": 3})
    assert told == {"origin": "梯度 损失.weight", "phase": "前向传播", "module": "the loss", "step": 3}


def test_a_list_of_rows_in_the_place_of_a_reason_is_said_one_after_another() -> None:
    header = next(r.header for r in RULES if r.header.code == "DI006")
    away = [
        {"calls_": "had_finished", "ranks_": "one", "ranks": "0"},
        {"calls_": "never_came", "ranks_": "several", "ranks": "1-2", "step": 3, "phase": "forward"},
    ]
    row = {"step": 9, "calls_": away}
    assert in_words_of(header, row)["calls_"] == (
        "rank 0 had finished; ranks 1-2 never came to it and was in step 3, forward phase"
    )
    with speaking("zh"):
        assert in_words_of(header, row)["calls_"] == "rank 0 已结束；rank 1-2 从未到达，停在第 3 步的前向传播阶段"


def test_english_is_what_stands_in_the_rule() -> None:
    assert text_of("NU000", "nonfinite-tensor") is None
    assert title_of("nonfinite-tensor") is None
    with speaking("zh"):
        assert title_of("nonfinite-tensor") == "张量出现非有限值"
        assert title_of("a-rule-of-mine") is None
        assert text_of("NU000", "a-rule-of-mine") is None


def test_rules_are_listed_and_explained_in_the_language_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with speaking("zh"):
        told = explain(next(r for r in RULES if r.header.code == "NU001"))
    assert "为何有害: " in told
    assert "Why:" not in told

    rules_command(None, lang="zh")
    assert "检查内容" in capsys.readouterr().out
    with pytest.raises(typer.Exit) as ended:
        rules_command(None, lang="tlh")
    assert ended.value.exit_code == 2
    assert "choose en or zh" in capsys.readouterr().err
    speak("en")


def test_a_fix_that_a_reason_chooses_is_explained_in_its_words() -> None:
    chosen = [r for r in RULES if (m := re.fullmatch(r"\{(\w+)\}[.]?", r.header.fix)) and m[1] in r.header.say]
    assert len(chosen) > 5
    for lang in ("en", "zh"):
        with speaking(lang):
            told = {rule.header.code: explain(rule).partition("SELECT")[0] for rule in chosen}
        assert [code for code, words in told.items() if re.search(r": \{\w+\}[.。]?$", words, re.MULTILINE)] == []


def test_what_cannot_be_said_of_a_row_is_an_error_of_the_rule() -> None:
    rule = next(r for r in RULES if r.header.code == "MO034")
    row = {
        "step": 3,
        "value": 2,
        "names": "0.weight",
        "what_": "moved_by_the_optimizer",
        "remedy": "moved_by_the_optimizer",
    }
    assert "2 parameters do not require gradients (0.weight)" in finding_from_rows(rule, [row]).finding.message
    with pytest.raises(RuleError, match="no words for 'of another version'"):
        finding_from_rows(rule, [{**row, "what_": "of another version"}])
    with pytest.raises(RuleError, match="cannot be said of this row"):
        fill("{share:.3g} of them", {"share": "inf"})
    with pytest.raises(RuleError, match="cannot be said of this row"):
        fill("{nobody}", row)
