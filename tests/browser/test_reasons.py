"""Why something is refused is said in the reader's language, by the browser; what a library says is quoted."""

from __future__ import annotations

import pytest

from model.errors import AtlasError, CheckpointCorruptError, HubUnreachableError, InvalidSettingError
from model.reasons import because
from tests.browser.conftest import Open
from viz.panels.notice import notice

SAID: tuple[tuple[AtlasError, str, str], ...] = (
    (
        CheckpointCorruptError("config.json", because("wrong_value", what="d_model", found="-3", wanted=because("positive"))),
        "(d_model is -3, expected a positive whole number)",
        "（d_model 的值是 -3，应为 正整数）",
    ),
    (HubUnreachableError("owner/name", because("no_answer")), "(no answer in time)", "（等不到回应）"),
    (HubUnreachableError("owner/name", "<b>{why}</b>"), "(<b>{why}</b>)", "（“<b>{why}</b>”）"),
    (
        InvalidSettingError("layer", 9, because("whole_number", low=0, high=5)),
        "Possible: a whole number from 0 to 5.",
        "可选：0 到 5 之间的整数。",
    ),
    (InvalidSettingError("places", 3, "two places"), "Possible: two places.", "可选：“two places”。"),
)


@pytest.mark.parametrize(("lang", "column"), [("en", 1), ("zh", 2)])
def test_reasons_in_the_readers_language(open_page: Open, lang: str, column: int) -> None:
    page = open_page(lang=lang)
    for case in SAID:
        assert case[column] in page.evaluate("(problem) => atlas.problemText(problem)", notice(case[0]))
