"""One position's way through the model, from its token id to the next token's probabilities, by way of one layer and one head.

Computed anew with the written-out arithmetic of `model.analysis.arithmetic`, and held against what the model's own pass gives.
"""

# D d_model, F d_ff, K head_dim, S keys, V vocabulary

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.analysis import arithmetic
from model.errors import InvalidSettingError
from model.hooks import ATTENTION_KINDS, AttentionKind, AttentionRecorder, AttentionSite, attention_hook
from model.reasons import because
from model.transformer import Transformer
from model.variants import own_modules

NUM_TOP = 10


def check_index(name: str, value: object, count: int) -> int:
    """A whole number from 0 to count - 1, as an int of Python's: another's may be too narrow to be counted with.

    Takes whatever can stand as an index in Python (one of numpy's or torch's, too), but no truth value. Raises InvalidSettingError.
    """
    is_truth = isinstance(value, bool) or (isinstance(value, Tensor) and value.dtype == torch.bool)
    try:
        found = -1 if is_truth else operator.index(value)
    except TypeError:
        found = -1
    if not 0 <= found < count:
        raise InvalidSettingError(name, value, because("whole_number", low=0, high=count - 1))
    return found


@dataclass(frozen=True)
class Place:
    """Which row of which map. The rows of "encoder_self" are the source's tokens, the others' what the decoder reads."""

    kind: AttentionKind
    layer: int
    head: int
    row: int

    @property
    def sublayer(self) -> str:
        return "cross_attn" if self.kind == "cross" else "self_attn"

    def checked(self, model: Transformer, src_len: int, tgt_len: int) -> Place:
        """The same in numbers of Python's own. Raises InvalidSettingError for a place that is not there."""
        if not isinstance(self.kind, str) or self.kind not in ATTENTION_KINDS:
            raise InvalidSettingError("kind", self.kind, ", ".join(ATTENTION_KINDS))
        of_encoder = self.kind == "encoder_self"
        stack = model.config.encoder if of_encoder else model.config.decoder
        counts = {"layer": stack.num_layers, "head": stack.num_heads, "row": src_len if of_encoder else tgt_len}
        return Place(self.kind, **{name: check_index(name, getattr(self, name), count) for name, count in counts.items()})


@dataclass(frozen=True, eq=False)
class SublayerStep:
    """One sublayer of the layer, at the row; float32 [D] each. "self_attn", "cross_attn" or "feed_forward".

    before    the residual stream as the sublayer finds it
    normed    pre-norm: before, normalised, which is what the sublayer reads; None in a post-norm model, where it reads `before`
    output    what the sublayer adds; added = before + output
    after     post-norm: added, normalised; pre-norm: added
    mean, variance  over the D values of what the norm normalises
    """

    name: str
    before: np.ndarray
    normed: np.ndarray | None
    output: np.ndarray
    added: np.ndarray
    after: np.ndarray
    mean: float
    variance: float


@dataclass(frozen=True, eq=False)
class ClosingNorm:
    """What the closing norm of a pre-norm stack reads: what the last layer leaves [D], float32, with the mean and the variance of it."""

    before: np.ndarray
    mean: float
    variance: float


@dataclass(frozen=True, eq=False)
class AttentionStep:
    """The head at the row; float32, masked bool. q [K]; k, v [S, K]; products (q.k), scores (divided by sqrt(d_k), if the model does),
    masked and weights [S]; head_output [K]; joined (all heads) and projected [D]. entropy of the weights in nats."""

    sublayer: str
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    products: np.ndarray
    scores: np.ndarray
    masked: np.ndarray
    weights: np.ndarray
    head_output: np.ndarray
    joined: np.ndarray
    projected: np.ndarray

    @property
    def entropy(self) -> float:
        seen = self.weights[self.weights > 0].astype(np.float64)
        return float(-(seen * np.log(seen)).sum())


@dataclass(frozen=True)
class Guess:
    """A token that may come next. probability = exp(logit - log_sum_exp) of the walk; rank 1 is the likeliest that may be written."""

    token_id: int
    token: str
    logit: float
    probability: float
    rank: int


@dataclass(frozen=True)
class WalkCheck:
    """Largest absolute differences between a walk and the model's own pass: the row's weights, what the row is after the layer, its final
    state, its logits (None in the encoder, which has none)."""

    weights: float
    layer: float
    final: float
    logits: float | None


@dataclass(frozen=True, eq=False)
class Walk:
    """All that happens to one position; float32.

    embedding, scaled, encoding, total  [D]: the token's row of the table, times embedding_scale, the position, and the sum of both
    stream_norms  lengths of the residual stream as each layer finds it, and after the last: layers + 1
    sublayers     of the layer, in order
    hidden, active  [F]: the layer's feed-forward before and after its activation
    closing       what the closing norm reads; None in a post-norm model, which has none
    final         [D]: after the last layer and, pre-norm, the closing norm
    top           the ten likeliest next tokens, best first; of those the model may write. None in the encoder
    written       the token that the translation has there, even if it may not be written; None in the encoder
    log_sum_exp   ln of the sum of exp(logit) over the tokens that share the probability: all but those never written, or, in a Marian model
                  that doesn't share anew, all. None in the encoder
    never_written how many tokens get no probability. scale_scores: whether scores are divided by sqrt(d_k)
    shared_anew   whether the others share what these would have got: then they are left out before the softmax, else after it

    The rules that a decoding may add (no endless repeats, a forced last token) are not part of a pass, and not of this.
    """

    place: Place
    token_id: int
    embedding: np.ndarray
    scaled: np.ndarray
    encoding: np.ndarray
    total: np.ndarray
    embedding_scale: float
    scale_scores: bool
    stream_norms: tuple[float, ...]
    sublayers: tuple[SublayerStep, ...]
    attention: AttentionStep
    hidden: np.ndarray
    active: np.ndarray
    closing: ClosingNorm | None
    final: np.ndarray
    top: tuple[Guess, ...] | None
    written: Guess | None
    log_sum_exp: float | None
    never_written: int
    shared_anew: bool
    check: WalkCheck


@dataclass(frozen=True, eq=False)
class Speech:
    """How a translator turns logits into words: the ids it never writes, whether the others share the whole probability, names of ids."""

    banned_ids: Collection[int]
    renormalize: bool
    name: Callable[[int], str]


def walk(model: Transformer, src_ids: tuple[int, ...], tgt_ids: tuple[int, ...], place: Place, speech: Speech) -> Walk:
    """The walk of the row at `place` in a teacher-forced pass over these ids (tgt_ids without the start token).

    Raises InvalidSettingError for a place that is not there.
    """
    place = place.checked(model, len(src_ids), len(tgt_ids))
    ids = src_ids if place.kind == "encoder_self" else (model.config.bos_id, *tgt_ids[:-1])
    row, head = place.row, place.head
    with torch.inference_mode():
        stack = recomputed(model, src_ids, ids, place)
        attended = next(each for each in stack.wanted if each.name == place.sublayer).work
        fed = stack.wanted[-1].work
        final = stack.final[row]
        logits = None if place.kind == "encoder_self" else arithmetic.logits(model, final)
        guesses = (None, None, None) if logits is None else _guesses(logits, tgt_ids[row], speech)
        weights = attended.weights[head, row]
        check = _check(model, src_ids, ids, place, weights, stack.wanted[-1].after[row], final, logits)
    inputs = stack.inputs
    return Walk(
        place=place,
        token_id=ids[row],
        embedding=_array(inputs.embedding[row]),
        scaled=_array(inputs.scaled[row]),
        encoding=_array(inputs.encoding[row]),
        total=_array(inputs.total[row]),
        embedding_scale=(model.src_embedding if place.kind == "encoder_self" else model.tgt_embedding).scale,
        scale_scores=_attention_module(model, place).scale_scores,
        stream_norms=tuple(stack.stream_norms[:, row].tolist()),
        sublayers=tuple(_sublayer(each, row) for each in stack.wanted),
        attention=AttentionStep(
            place.sublayer,
            q=_array(attended.q[head, row]),
            k=_array(attended.k[head]),
            v=_array(attended.v[head]),
            products=_array(attended.products[head, row]),
            scores=_array(attended.scores[head, row]),
            masked=attended.masked[row].cpu().numpy(),
            weights=_array(weights),
            head_output=_array(attended.heads[head, row]),
            joined=_array(attended.joined[row]),
            projected=_array(attended.output[row]),
        ),
        hidden=_array(fed.hidden[row]),
        active=_array(fed.active[row]),
        closing=_closing(stack, row),
        final=_array(final),
        top=guesses[0],
        written=guesses[1],
        log_sum_exp=guesses[2],
        never_written=0 if logits is None else len(speech.banned_ids),
        shared_anew=logits is not None and speech.renormalize,
        check=check,
    )


def recomputed(model: Transformer, src_ids: tuple[int, ...], ids: tuple[int, ...], place: Place) -> arithmetic.Stack:
    """The stack that the place is in, with the sublayers of its layer. ids are those which that stack reads."""
    if place.kind == "encoder_self":
        return arithmetic.encoder_stack(model, ids, place.layer)
    return arithmetic.decoder_stack(model, ids, arithmetic.encoder_stack(model, src_ids).final, place.layer)


def _attention_module(model: Transformer, place: Place) -> torch.nn.Module:
    return getattr((model.encoder if place.kind == "encoder_self" else model.decoder)[place.layer], place.sublayer)


def _sublayer(step: arithmetic.Sublayer, row: int) -> SublayerStep:
    arrays = (None if each is None else _array(each[row]) for each in (step.before, step.normed, step.work.output, step.added, step.after))
    return SublayerStep(step.name, *arrays, float(step.mean[row]), float(step.variance[row]))


def _closing(stack: arithmetic.Stack, row: int) -> ClosingNorm | None:
    if stack.mean is None or stack.variance is None:
        return None
    return ClosingNorm(_array(stack.last[row]), float(stack.mean[row]), float(stack.variance[row]))


def _guesses(logits: Tensor, written_id: int, speech: Speech) -> tuple[tuple[Guess, ...], Guess, float]:
    allowed = torch.ones_like(logits, dtype=torch.bool)
    allowed[list(speech.banned_ids)] = False
    total = float(arithmetic.log_sum_exp(logits[allowed] if speech.renormalize else logits))
    writable = torch.where(allowed, logits, -torch.inf)

    def guess(token_id: int) -> Guess:
        value = float(logits[token_id])
        probability = float(np.exp(value - total)) if bool(allowed[token_id]) else 0.0
        return Guess(token_id, speech.name(token_id), value, probability, 1 + int((writable > logits[token_id]).sum()))

    best = writable.topk(min(NUM_TOP, int(allowed.sum()))).indices.tolist()
    return tuple(map(guess, best)), guess(written_id), total


def _check(
    model: Transformer,
    src_ids: tuple[int, ...],
    ids: tuple[int, ...],
    place: Place,
    weights: Tensor,
    after: Tensor,
    final: Tensor,
    logits: Tensor | None,
) -> WalkCheck:
    """The model's own pass, watched. Its modules are copies, since other threads compute with the originals at this moment."""
    watched, device = own_modules(model), weights.device
    layer = (watched.encoder if place.kind == "encoder_self" else watched.decoder)[place.layer]
    outputs: list[Tensor] = []
    layer.register_forward_hook(lambda module, given, output: outputs.append(output))
    src, read = (torch.tensor([list(each)], device=device) for each in (src_ids, ids))
    with attention_hook(AttentionRecorder()) as recorder:
        states = watched.encode(src)
        if place.kind != "encoder_self":
            states = watched.decode(read, states)
    seen = recorder.weights[AttentionSite(place.kind, place.layer)][0, place.head, place.row]
    theirs = states[0, place.row]
    return WalkCheck(
        _difference(weights, seen),
        _difference(after, outputs[0][0, place.row]),
        _difference(final, theirs),
        None if logits is None else _difference(logits, watched.project(theirs)),
    )


def _difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs.float()).abs().max())


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.float().cpu().numpy().copy()
