"""Positions: what they do in this sentence."""

TEXT: dict[str, str] = {}
