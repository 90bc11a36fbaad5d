"""Heads: roles and measures."""

TEXT = {
    "heads.label": "全部注意力头",
    "heads.strip.label": "这一类的全部注意力头",
}
