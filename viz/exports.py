"""The maps of a run as files: .npz, JSON and CSV. Plain functions that write into a binary file; no Gradio here.

All three hold pieces (not whole words) and special tokens, and all three give the model's float32 weights back exactly: what the page
rounds for the screen is rounded there only.

.npz keys (`numpy.load` with allow_pickle=False):
    encoder_self_attention, decoder_self_attention, cross_attention    float32 [layer, head, query, key]
    src_tokens, tgt_in_tokens, tgt_out_tokens                          str
    src_ids, tgt_ids                                                   int64
    token_log_probs, token_probabilities                               float64, one per target token
    about, translation                                                 UTF-8 bytes of JSON: settings and model; the whole translation
`model.recording.load_run` reads the same file.

JSON holds the same under "about", "translation", "token_probabilities" and "maps" (kind -> queries, keys, weights).

CSV is one line per weight (`COLUMNS`), UTF-8 with a byte order mark. Masked cells are no weights and have no line. A spreadsheet would run
a token that begins with = + - @ as a formula, so such a token, and one that begins with an apostrophe, a tab or a line end, gets an
apostrophe in front: take one away to have it back.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from model.errors import AtlasError
from model.recording import FORMAT as RUN_FORMAT
from model.results import MAPS
from viz.panels.choice import KINDS, MapChoice, maps_of
from viz.panels.map_view import piece_weights

if TYPE_CHECKING:
    from viz.runs import Run

JSON_FORMAT = "attention-atlas-maps-1"
MAX_JSON_WEIGHTS = 2_000_000  # about 24 MB
MAX_CSV_WEIGHTS = 1_000_000  # a spreadsheet has 1,048,576 lines
_RISKY = tuple("=+-@＝＋－＠'\t\r\n")  # the wide forms are formulas too, in East Asian spreadsheets
COLUMNS = ("kind", "layer", "head", "rows", "query_position", "query_token", "key_position", "key_token", "weight")


class ExportTooLargeError(AtlasError):
    """A text file of this many weights would be too large to be of use."""

    code = "export_too_large"

    def __init__(self, form: str, count: int, limit: int) -> None:
        super().__init__(
            f"{form} of {count} weights would be too large; {limit} is the most. Take the .npz, or the CSV of one map.",
            format=form,
            count=count,
            limit=limit,
        )


def num_weights(run: Run) -> int:
    """Weights of all maps of a run."""
    return sum(maps_of(run.trace, kind).size for kind in KINDS)


def about(run: Run) -> dict[str, Any]:
    """Settings and model of a run, as plain JSON values. What was asked for stands beside what the model read (`source_text`)."""
    request = run.request
    return {
        "model": request.model,
        "revision": run.revision,
        "text": request.text,
        "source_text": run.translation.source_text,
        "translation": run.translation.text,
        "target": request.target,
        "beam_size": request.beam_size,
        "given": request.given,
        "recorded": request.recorded,
    }


def write_npz(run: Run, file: BinaryIO) -> None:
    """All maps of the run as an .npz without pickles; keys are listed above."""
    translation = run.translation
    log_probs = np.asarray(translation.token_log_probs, dtype=np.float64)
    tokens = {name: np.array(getattr(translation, name), dtype=np.str_) for name in ("src_tokens", "tgt_in_tokens", "tgt_out_tokens")}
    np.savez_compressed(
        file,
        **{name: getattr(run.trace, name) for name in MAPS},
        **tokens,
        src_ids=np.asarray(translation.src_ids, dtype=np.int64),
        tgt_ids=np.asarray(translation.tgt_ids, dtype=np.int64),
        token_log_probs=log_probs,
        token_probabilities=np.exp(log_probs),
        about=_bytes(about(run)),
        translation=_bytes({"format": RUN_FORMAT, **asdict(translation)}),
    )


def write_json(run: Run, file: BinaryIO) -> None:
    """All maps of the run as JSON, nine significant digits each, which is what it takes to give a float32 back.

    Raises ExportTooLargeError beyond MAX_JSON_WEIGHTS.
    """
    if num_weights(run) > MAX_JSON_WEIGHTS:
        raise ExportTooLargeError("JSON", num_weights(run), MAX_JSON_WEIGHTS)
    translation = run.translation
    start = {
        "format": JSON_FORMAT,
        "about": about(run),
        "translation": asdict(translation),
        "token_probabilities": np.exp(np.asarray(translation.token_log_probs, dtype=np.float64)).tolist(),
    }
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    text.write(json.dumps(start)[:-1] + ', "maps": {')
    for kind in KINDS:
        tokens = {
            "queries": translation.src_tokens if kind == "encoder_self" else translation.tgt_out_tokens,
            "keys": translation.tgt_in_tokens if kind == "decoder_self" else translation.src_tokens,
        }
        separator = "" if kind == KINDS[0] else ", "
        text.write(f'{separator}"{kind}": {json.dumps(tokens)[:-1]}, "weights": {_nested(maps_of(run.trace, kind))}}}')
    text.write("}}\n")
    text.detach()  # flushes, and leaves the file to whoever opened it


def write_csv(run: Run, file: BinaryIO, choice: MapChoice | None = None, rows: str = "predicted") -> None:
    """One map, or without a choice all heads of all kinds, one line per weight, in the columns `COLUMNS`.

    rows: how decoder rows are named if there is no choice, by the token "predicted" or "read". Layers, heads and positions count from 0.
    Raises ExportTooLargeError beyond MAX_CSV_WEIGHTS.
    """
    count = num_weights(run) if choice is None else piece_weights(run, choice).size
    if count > MAX_CSV_WEIGHTS:
        raise ExportTooLargeError("CSV", count, MAX_CSV_WEIGHTS)
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="backslashreplace", newline="")
    text.write(",".join(COLUMNS) + "\r\n")
    for each in [choice] if choice else _all_choices(run, rows):
        text.writelines(_lines(run, each))
    text.detach()


def file_name(form: str, choice: MapChoice | None = None) -> str:
    """Such as attention-atlas-cross-L0H3.csv, or attention-atlas-maps.npz for all maps."""
    return f"attention-atlas-{'maps' if choice is None else f'{choice.kind}-{place(choice)}'}.{form}"


def place(choice: MapChoice) -> str:
    """L0H3 for a head, L0-mean for what is of all heads together. Layers and heads count from 0."""
    return f"L{choice.layer}H{choice.head}" if isinstance(choice.head, int) else f"L{choice.layer}-{choice.head}"


# --- parts ---


def _bytes(values: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(json.dumps(values).encode("ascii"), dtype=np.uint8)


def _digits(weights: np.ndarray) -> list[str]:
    """A vector of float32 with nine significant digits each; formatting many at a time is several times faster."""
    return ("%.9g " * weights.size % tuple(weights.tolist())).split()


def _nested(weights: np.ndarray) -> str:
    if weights.ndim == 1:
        return f"[{','.join(_digits(weights))}]"
    return f"[{','.join(map(_nested, weights))}]"


def _all_choices(run: Run, rows: str) -> Iterator[MapChoice]:
    for kind in KINDS:
        layers, heads = maps_of(run.trace, kind).shape[:2]
        yield from (MapChoice(kind, layer, head, rows) for layer in range(layers) for head in range(heads))


def _lines(run: Run, choice: MapChoice) -> Iterator[str]:
    rows = "source" if choice.kind == "encoder_self" else choice.rows
    keys = [f"{position},{_cell(token)}," for position, token in enumerate(choice.column_tokens(run.trace))]
    for query, (token, weights) in enumerate(zip(choice.row_tokens(run.trace), piece_weights(run, choice), strict=True)):
        start = f"{choice.kind},{choice.layer},{choice.head},{rows},{query},{_cell(token)},"
        seen: Sequence[str] = keys[: query + 1] if choice.kind == "decoder_self" else keys  # beyond it all is masked
        yield from (f"{start}{key}{value}\r\n" for key, value in zip(seen, _digits(weights), strict=False))


def _cell(token: str) -> str:
    safe = f"'{token}" if token.startswith(_RISKY) else token
    return '"' + safe.replace('"', '""') + '"'
