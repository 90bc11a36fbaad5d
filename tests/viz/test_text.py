"""Both languages say the same things, templates fill safely, and every key that the page uses exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import model.errors
from model.errors import CheckpointCorruptError, HubUnreachableError, InvalidSettingError
from model.reasons import REASONS, because
from viz.panels.notice import notice
from viz.text import LANGUAGES, error_text, known_language, say
from viz.text.en import TEXT as EN
from viz.text.zh import TEXT as ZH

ROOT = Path(__file__).resolve().parents[2]
HOLES = re.compile(r"\{(\w+)\}")


def test_the_same_keys_and_holes_in_both_languages() -> None:
    assert list(EN) == list(ZH)
    for key in EN:
        assert sorted(HOLES.findall(EN[key])) == sorted(HOLES.findall(ZH[key])), key


def test_no_key_is_in_two_tables() -> None:
    for language in ("en", "zh"):
        tables = [module.TEXT for module in vars(import_module(f"viz.text.{language}")).values() if hasattr(module, "TEXT")]
        assert len(tables) > 5 and sum(map(len, tables)) == len(LANGUAGES[language])


def test_nothing_is_empty_and_chinese_is_chinese() -> None:
    for language, table in LANGUAGES.items():
        for key, value in table.items():
            assert value.strip(), (language, key)
    untranslated = [key for key in EN if EN[key] == ZH[key] and re.search("[a-z]{3}", EN[key])]
    assert untranslated == ["given.placeholder.fra"]
    assert not [key for key, value in ZH.items() if "变压器" in value or "變" in value]


def test_the_ribbons_have_one_name_in_chinese() -> None:
    assert any("带子" in value for value in ZH.values()) and not [key for key, value in ZH.items() if "丝带" in value]


def test_every_error_of_the_model_has_words_in_both_languages() -> None:
    codes = {each.code for each in vars(model.errors).values() if isinstance(each, type) and issubclass(each, model.errors.AtlasError)}
    for code in codes - {"error"}:
        assert f"error.{code}" in EN, code


def test_every_warning_of_a_model_has_words_in_both_languages() -> None:
    codes = re.findall(r'LoadWarning\("(\w+)"', (ROOT / "model/marian/weights.py").read_text(encoding="utf-8"))
    assert len(codes) == 3
    for code in codes:
        assert f"model.warning.{code}" in EN, code


def test_every_key_the_page_names_exists() -> None:
    used = set()
    for path in [*ROOT.glob("viz/static/*.js"), *ROOT.glob("viz/**/*.py"), ROOT / "app.py"]:
        text = path.read_text(encoding="utf-8")
        used |= set(re.findall(r"""data-t(?:-\w+)?="([\w.]+)\"""", text))
        used |= set(re.findall(r"""\bsay\((?:language, |"en", )?"([\w.]+)["]""", text))
        used |= set(re.findall(r"""label_key="([\w.]+)\"""", text))
    assert len(used) > 40
    assert used <= set(EN)


def test_reasons_are_those_of_the_model() -> None:
    ours = {key.removeprefix("reason."): text for key, text in EN.items() if key.startswith("reason.") and key != "reason.quoted"}
    assert ours == REASONS


def test_a_reason_goes_to_the_page_by_its_key_and_foreign_words_as_a_quotation() -> None:
    wanted = because("positive")
    corrupt = CheckpointCorruptError("config.json", because("wrong_value", what="d_model", found="-3", wanted=wanted))
    assert notice(corrupt)["params"] == {
        "path": "config.json",
        "detail": {"reason": "wrong_value", "params": {"what": "d_model", "found": "-3", "wanted": {"reason": "positive", "params": {}}}},
    }
    foreign = notice(HubUnreachableError("o/m", "Network is down"))["params"]["detail"]
    assert foreign == {"reason": "quoted", "params": {"text": "Network is down"}}
    setting = notice(InvalidSettingError("layer", -1, because("whole_number", low=0, high=5)))["params"]
    assert setting == {"name": "layer", "value": "-1", "allowed": {"reason": "whole_number", "params": {"low": 0, "high": 5}}}


def test_templates_fill_by_name_once() -> None:
    assert say("en", "error.unknown_target", target="{supported}", supported="fra") == (
        "This model does not translate into “{supported}”. It knows: fra."
    )
    assert error_text("zh", "unknown_target", {"target": "xx", "supported": ["fra", "cmn"]}).endswith("可选：fra, cmn。")
    assert error_text("en", "no such code", {}) == EN["error.unexpected"]
    with pytest.raises(KeyError):
        say("en", "no.such.key")


@pytest.mark.parametrize("code", ["fr", "", None, 3, "EN"])
def test_an_unknown_language_is_english(code: object) -> None:
    assert known_language(code) == "en"


def test_memory_has_one_name_in_chinese() -> None:
    said = "".join(LANGUAGES["zh"].values())
    assert "编码器输出（memory）" in said
    assert "记忆" not in said and "编码器的输出" not in said


def test_a_percentage_is_written_in_one_way() -> None:
    """As "53%", with no space, in both languages; what the page computes goes through atlas.percent (static/page.js)."""
    spaced = re.compile(r"[\d}][\s\u00a0\u202f]+[%％]|％")
    for language, table in LANGUAGES.items():
        assert [key for key, value in table.items() if spaced.search(value)] == [], language
    written = re.compile(r"\}[\s\u00a0]*%[`\"]")
    paths = [path for path in ROOT.glob("viz/static/*.js") if path.name != "page.js"]
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if written.search(line) and ".style." not in line] == []
