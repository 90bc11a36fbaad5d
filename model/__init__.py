"""The Transformer, its capture, decoding and analysis. Knows neither Plotly nor Gradio.

    from model import load_translator
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.loading import load_translator

__all__ = ["load_translator"]


def __getattr__(name: str) -> object:
    # Late, so that `import model.config` costs no torch.
    if name == "load_translator":
        from model.loading import load_translator

        return load_translator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
