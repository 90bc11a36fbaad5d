"""Reading a figure the way the browser gets it: back from its JSON, arrays decoded."""

from __future__ import annotations

import base64
import json

import numpy as np
import plotly.graph_objects as go


def as_sent(figure: go.Figure) -> dict:
    """The figure's JSON as a dict."""
    return json.loads(figure.to_json())


def array(sent: dict) -> np.ndarray:
    """A typed array of a figure's JSON. Fails for a plain list, which is several times larger."""
    assert isinstance(sent, dict), "sent as a list, not as a typed array"
    shape = [int(n) for n in str(sent.get("shape", "-1")).split(",")]
    return np.frombuffer(base64.b64decode(sent["bdata"]), np.dtype(sent["dtype"])).reshape(shape)


def hover_token(figure: dict, axis: str, position: int) -> str:
    """What `%{x}` or `%{y}` reads in hover: the text at that place of the axis."""
    settings = figure["layout"][f"{axis}axis"]
    return settings["ticktext"][settings["tickvals"].index(position)]
