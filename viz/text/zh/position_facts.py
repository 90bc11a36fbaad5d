"""Positions: what the table of sines and cosines does."""

TEXT: dict[str, str] = {}
