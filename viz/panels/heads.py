"""The Heads tab: every head of the model on one sheet."""

from __future__ import annotations

from viz.page import static_block

_SHEET = '<section class="heads-sheet" data-t-label="heads.label"></section>'


def build() -> None:
    """Lays the tab out inside the current Blocks. All it shows, it reads from the maps of the Translate tab."""
    static_block(_SHEET, "atlas.headsSheet?.(element)", "heads-sheet")
