"""Colours: apart for colour-blind readers, strong enough on both pages, and ramps whose lightness runs evenly one way.

Colour-blindness is simulated with the matrices of Machado, Oliveira and Fernandes (2009) for full protanopia and deuteranopia, on
linear RGB; distances are Euclidean in OKLab (Ottosson, 2020), where black and white are 1 apart and 0.02 is just noticeable.
Contrast is WCAG 2.2's ratio of relative luminances.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from viz.figures import colors

VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
}
LMS = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]]
)
LAB = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099], [0.0259040371, 0.7827717662, -0.8086757660]]
)
PAGES = {name: theme.page for name, theme in colors.THEMES.items()}
EVERY_COLOR = {**colors.KIND_COLORS, "negative": colors.NEGATIVE_COLOR, "positive": colors.POSITIVE_COLOR, "learned": colors.LEARNED_COLOR}


def srgb(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def linear(rgb: np.ndarray) -> np.ndarray:
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    return LAB @ np.cbrt(LMS @ rgb)


def contrast(a: str, b: str) -> float:
    high, low = sorted((float(linear(srgb(c)) @ [0.2126, 0.7152, 0.0722]) for c in (a, b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def distance(a: str, b: str, vision: str) -> float:
    seen = [oklab(np.clip(VISION[vision] @ linear(srgb(c)), 0, 1)) for c in (a, b)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def test_contrast_and_distance_know_black_from_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert distance("#000000", "#ffffff", "normal") == pytest.approx(1, abs=1e-3)
    # red and green of equal lightness: far apart for most people, close under deuteranopia
    assert distance("#c0504d", "#7a7a2a", "deuteranopia") < distance("#c0504d", "#7a7a2a", "normal") / 2


@pytest.mark.parametrize("vision", VISION)
def test_kinds_stand_apart(vision: str) -> None:
    least = {"normal": 0.2, "protanopia": 0.12, "deuteranopia": 0.12}[vision]
    for a, b in itertools.combinations(colors.KIND_COLORS, 2):
        assert distance(colors.KIND_COLORS[a], colors.KIND_COLORS[b], vision) > least, (a, b)


@pytest.mark.parametrize("vision", VISION)
def test_below_and_above_zero_stand_apart(vision: str) -> None:
    assert distance(colors.NEGATIVE_COLOR, colors.POSITIVE_COLOR, vision) > 0.2


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", EVERY_COLOR)
def test_every_colour_has_three_to_one_on_both_pages(name: str, page: str) -> None:
    assert contrast(EVERY_COLOR[name], PAGES[page]) >= 3


@pytest.mark.parametrize("theme", colors.THEMES.values(), ids=colors.THEMES)
def test_text_has_four_and_a_half_to_one(theme: colors.Theme) -> None:
    assert contrast(theme.ink, theme.page) >= 7
    assert contrast(theme.muted, theme.page) >= 4.5
    assert contrast(theme.ink, theme.hover) >= 7


def test_kinds_have_the_hue_of_their_name() -> None:
    hues = {}
    for kind, color in colors.KIND_COLORS.items():
        _, a, b = oklab(linear(srgb(color)))
        hues[kind] = np.degrees(np.arctan2(b, a)) % 360
    assert 250 < hues["encoder_self"] < 270  # blue
    assert 40 < hues["decoder_self"] < 65  # orange
    assert 150 < hues["cross"] < 175  # green


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", EVERY_COLOR)
def test_lightness_of_a_ramp_runs_evenly_one_way(name: str, page: str) -> None:
    (low, nothing), (high, full) = colors.ramp(EVERY_COLOR[name])
    assert (low, high) == (0, 1)
    assert nothing.endswith(",0)") and full.endswith(",1)")
    weights = np.linspace(0, 1, 21)
    # what the reader sees: the colour at that opacity over the page, blended as browsers do
    seen = [oklab(linear(w * srgb(EVERY_COLOR[name]) + (1 - w) * srgb(PAGES[page])))[0] for w in weights]
    steps = np.diff(seen)
    assert (steps < 0).all() or (steps > 0).all()
    straight = seen[0] + (seen[-1] - seen[0]) * weights
    assert np.abs(straight - seen).max() < 0.02


def test_scales_that_cannot_be_see_through_start_at_the_page() -> None:
    for theme in colors.THEMES.values():
        assert colors.opaque_ramp("#123456", theme) == [[0, theme.page], [1, "#123456"]]
        assert colors.opaque_diverging(theme)[1] == [0.5, theme.page]


def test_diverging_scale_is_symmetric_and_empty_at_zero() -> None:
    stops = colors.diverging()
    assert [stop for stop, _ in stops] == [0, 0.5, 0.5, 1]
    assert [float(color.rstrip(")").split(",")[3]) for _, color in stops] == [1, 0, 0, 1]


def test_rgba_and_unknown_kinds() -> None:
    assert colors.rgba("#0aa083", 0.5) == "rgba(10,160,131,0.5)"
    with pytest.raises(ValueError, match="encoder_self, decoder_self, cross"):
        colors.kind_color("self")


def test_the_page_has_the_same_colours() -> None:
    css = Path(colors.__file__).parents[1] / "static" / "atlas.css"
    light, dark = (dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", part)) for part in _root_rules(css.read_text("utf-8")))
    for kind, color in colors.KIND_COLORS.items():
        assert light[kind] == color and dark.get(kind, color) == color, kind
    for theme, values in ((colors.LIGHT, light), (colors.DARK, dark)):
        assert (values["page"], values["ink"], values["muted"], values["line"]) == (theme.page, theme.ink, theme.muted, theme.line)


def _root_rules(css: str) -> tuple[str, str]:
    """Bodies of the first two rules that set `--page`: the light page's and the dark page's."""
    bodies = [body for body in re.findall(r"\{([^{}]*)\}", css) if "--page:" in body]
    assert len(bodies) == 2
    return bodies[0], bodies[1]
