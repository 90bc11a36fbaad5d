"""The endpoints' functions, called with what no page would send."""

from __future__ import annotations

import pytest

from model.errors import InvalidSettingError
from tests.viz.fakes import FakeTranslator
from viz import page
from viz.panels import api
from viz.runs import RunCache


@pytest.mark.parametrize("head", ["²", "٣", "9" * 5000, "-1", "1.0", "", "median", None, 1.5, 99, [1], pytest.param(10**5000, id="huge")])
def test_a_head_that_there_is_not(head) -> None:
    with pytest.raises(InvalidSettingError):
        api.attention(RunCache(FakeTranslator()), "I love you.", head=head)


@pytest.mark.parametrize("beam_size", [pytest.param(10**5000, id="huge"), -1, 2.5, "4", None, True])
def test_a_beam_that_there_is_not(beam_size) -> None:
    with pytest.raises(InvalidSettingError):
        api.translate(RunCache(FakeTranslator()), "I love you.", beam_size=beam_size)


@pytest.mark.parametrize("value", ["abc", "0", "65536", "99999", "-5", "1e3", "²", "9" * 5000, ""])
def test_a_port_that_is_none(value, monkeypatch) -> None:
    monkeypatch.setenv("PORT", value)
    with pytest.raises(SystemExit, match="PORT"):
        page.port()


def test_the_port(monkeypatch) -> None:
    monkeypatch.delenv("PORT", raising=False)
    assert page.port() == 7860
    monkeypatch.setenv("PORT", "8080")
    assert page.port() == 8080
