"""Machine: masks, training against generation, norms, heads, memory."""

TEXT: dict[str, str] = {}
