"""Heads: roles and measures."""

TEXT = {
    "heads.label": "All heads",
    "heads.strip.label": "All heads of this kind",
}
