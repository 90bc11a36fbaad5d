"""The first visit's tour."""

TEXT: dict[str, str] = {}
