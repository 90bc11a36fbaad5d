"""Links and exports."""

TEXT: dict[str, str] = {}
