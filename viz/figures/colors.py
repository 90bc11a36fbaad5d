"""Colours of every figure: one per kind of attention, the ramps made from them, and the ink around them.

A kind's colour is one and the same on the light and on the dark page, so it has to stand 3:1 against both (WCAG 2.2, 1.4.11)
and apart from the other two kinds under deuteranopia and protanopia; tests/viz/figures/test_colors.py computes both.

Ramps are see-through: zero is the colour at opacity 0, so it is the page itself, whatever the page's background; full weight
is the pure colour. Such a ramp needs no swap between light and dark. Only what cannot be see-through does (ink, and the small
scale above a map, which Plotly always paints opaque): that is `LIGHT` and `DARK`, and `viz.figures.frame` says how it is swapped.
"""

from __future__ import annotations

from dataclasses import dataclass

ColorScale = list[list[float | str]]

KIND_COLORS: dict[str, str] = {
    "encoder_self": "#2d66dc",  # blue
    "decoder_self": "#e4620f",  # orange
    "cross": "#0aa083",  # green
}

# Ends of the diverging scale of the positional encoding. Neither is the colour of a kind of attention.
NEGATIVE_COLOR = "#6b5fae"  # violet
POSITIVE_COLOR = "#a9762f"  # ochre

# Learned positions, beside the computed ones.
LEARNED_COLOR = "#b3477c"  # rose

WAVE_COLORS = (POSITIVE_COLOR, NEGATIVE_COLOR)  # sine, cosine

# Veil and strokes over cells that cannot be attended to. This grey shows on both pages.
MASK_COLOR, MASK_OPACITY, MASK_STROKE_OPACITY = "#80848c", 0.09, 0.35


@dataclass(frozen=True)
class Theme:
    """Colours that follow the page. `page` is the background the page itself must use for the opaque scales to vanish into it."""

    page: str
    ink: str
    muted: str
    line: str
    hover: str


LIGHT = Theme(page="#ffffff", ink="#1c2024", muted="#5b636e", line="#d9dde3", hover="#ffffff")
DARK = Theme(page="#0f1216", ink="#e7e9ec", muted="#9aa3ae", line="#333a43", hover="#1b2026")
THEMES: dict[str, Theme] = {"light": LIGHT, "dark": DARK}


def rgba(color: str, alpha: float) -> str:
    """`#rrggbb` at an opacity between 0 and 1, as CSS `rgba(...)`."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"


def kind_color(kind: str) -> str:
    """The colour of a kind of attention. ValueError if there is no such kind."""
    try:
        return KIND_COLORS[kind]
    except KeyError:
        raise ValueError(f"Unknown kind of attention {kind!r}; it must be one of {', '.join(KIND_COLORS)}.") from None


def ramp(color: str, opacity: float = 1) -> ColorScale:
    """Plotly colour scale from nothing (the page shows through) to the full colour. Lightness changes evenly and one way only."""
    return [[0, rgba(color, 0)], [1, rgba(color, opacity)]]


def opaque_ramp(color: str, theme: Theme) -> ColorScale:
    """What `ramp` looks like on a theme's page, for scales that Plotly paints without opacity."""
    return [[0, theme.page], [1, color]]


def diverging() -> ColorScale:
    """See-through scale for values symmetric about zero: violet below, nothing at zero, ochre above."""
    return [[0, rgba(NEGATIVE_COLOR, 1)], [0.5, rgba(NEGATIVE_COLOR, 0)], [0.5, rgba(POSITIVE_COLOR, 0)], [1, rgba(POSITIVE_COLOR, 1)]]


def opaque_diverging(theme: Theme) -> ColorScale:
    """What `diverging` looks like on a theme's page."""
    return [[0, NEGATIVE_COLOR], [0.5, theme.page], [1, POSITIVE_COLOR]]
