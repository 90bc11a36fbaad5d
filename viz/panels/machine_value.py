"""What the Machine tab draws, as one JSON string: a configuration with its shapes, parameters and operations. No Gradio here.

    {"asked": {"model", "config", "own", "lengths"},                     what this answers: see `MachineChoice`
     "picture": {"config": "loaded" | "base" | "big" | "own",
                 "sizes": {"d_model", "norm", "activation", "layout", "scale", "dropout", "eps", "tied", "output_bias", "max_len",
                           "encoder" | "decoder": {"layers", "heads", "head_dim", "d_ff", "vocab_size"}},
                 "places": {PLACE: {"tensors": [[name, shape], ...], "count", "times", "shared", "operations": number or null}},
                 "shapes": {NAME: [number or letter, ...]}, "total", "operations": number or null,
                 "tying": [parameters with one matrix for embeddings and output or null, with three]},
     "compare": [{"config", "total", "operations", "parts": {part: count}}, ...],
     "own": what the form of one's own sizes starts from,
     "same": ["loaded" | "base" | "big", ...] that have all these sizes, "uneven": whether the loaded model's stacks differ in a size that
     one's own have in common,
     "refused": {"code", "params"} of the sizes in the form that cannot be (the picture is then of another configuration), or null,
     "facts": of the loaded checkpoint, or null where there is none}

PLACE and NAME are those of `model.analysis.sizes`; operations are of a pass over the sentence on the page. "tied": "all" matrices are
one, "output" and target embedding are, or "none".
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from model.analysis.sizes import operations, places, shapes, times, total_parameters, tying
from model.catalogue import EMBEDDED
from model.config import NORMS, PRESETS, TransformerConfig, count_parameters
from model.errors import AtlasError, InvalidSettingError
from viz.panels.choice import as_mapping, one_of
from viz.panels.notice import notice

if TYPE_CHECKING:
    from model.translator import Translator

CONFIGS = ("loaded", "base", "big", "own")
TIED = ("all", "none")
MAX_TOKENS = 100_000
MAX_DIVISORS = 16  # that a message names


class SizeError(AtlasError):
    """A size of one's own configuration is no whole number, or outside the limits."""

    code = "machine_size"

    def __init__(self, name: str, value: object, low: int, high: int) -> None:
        params = {"size": name, "value": "" if value is None else str(value)[:40], "low": low, "high": high}
        super().__init__(f"{name} = {params['value']} is not possible: a whole number from {low} to {high}.", **params)


class OddWidthError(AtlasError):
    """d_model is odd: sines and cosines come in pairs."""

    code = "machine_odd"

    def __init__(self, d_model: int) -> None:
        super().__init__(f"d_model = {d_model} is odd, and sines and cosines come in pairs.", value=d_model)


class SplitError(AtlasError):
    """The heads do not divide d_model."""

    code = "machine_split"

    def __init__(self, d_model: int, heads: int) -> None:
        possible = [n for n in range(1, LIMITS["num_heads"][1] + 1) if d_model % n == 0][-MAX_DIVISORS:]
        super().__init__(f"{d_model} dimensions cannot be split into {heads} equal heads.", d_model=d_model, heads=heads, possible=possible)


# Room for the largest models there are; beyond it a picture or a message would be unreadable, not the counting slow.
LIMITS: dict[str, tuple[int, int]] = {
    "d_model": (2, 16_384),
    "num_heads": (1, 64),
    "num_encoder_layers": (1, 48),
    "num_decoder_layers": (1, 48),
    "d_ff": (1, 65_536),
    "vocab_size": (4, 1_000_000),
}


@dataclass(frozen=True)
class OwnSizes:
    """The sizes that a visitor may choose; both stacks alike, as in the paper."""

    d_model: int
    num_heads: int
    num_encoder_layers: int
    num_decoder_layers: int
    d_ff: int
    vocab_size: int
    norm: str = "post"
    tied: str = "all"

    @classmethod
    def checked(cls, values: object) -> OwnSizes:
        """Raises SizeError, OddWidthError, SplitError and InvalidSettingError, one for each thing that can be wrong."""
        values = as_mapping(values)
        sizes = {name: _size(name, values.get(name), *limits) for name, limits in LIMITS.items()}
        if sizes["d_model"] % 2:
            raise OddWidthError(sizes["d_model"])
        if sizes["d_model"] % sizes["num_heads"]:
            raise SplitError(sizes["d_model"], sizes["num_heads"])
        return cls(**sizes, norm=one_of("norm", values.get("norm"), NORMS), tied=one_of("tied", values.get("tied"), TIED))

    @classmethod
    def of(cls, config: TransformerConfig) -> OwnSizes:
        """The nearest to a configuration: where its stacks differ, the encoder's sizes."""
        sizes = {name: min(getattr(config, name), high) for name, (_, high) in LIMITS.items()}
        return cls(**sizes, norm=config.norm, tied="all" if config.tie_embeddings else "none")

    @property
    def config(self) -> TransformerConfig:
        sizes = {name: getattr(self, name) for name in LIMITS}
        return TransformerConfig(**sizes, norm=self.norm, tie_embeddings=self.tied == "all")

    def as_dict(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class MachineChoice:
    """What the page wants to see.

    model    by which the page asks for it
    config   one of CONFIGS
    own      sizes of one's own, or None as long as nobody has chosen any
    lengths  (src_len, tgt_len) of the sentence on the page, or None where that is none of this model's
    refused  why the sizes in the form cannot be, or None. Then "loaded" is chosen in place of "own"
    """

    model: str
    config: str
    own: OwnSizes | None
    lengths: tuple[int, int] | None
    refused: AtlasError | None = None

    @classmethod
    def from_page(cls, result: object, store: object) -> MachineChoice:
        """Sizes of one's own are what is "typed" in the form while that is open, "own" (the last that could be) beside the others.

        Raises InvalidSettingError, SizeError for lengths; what is wrong with one's own sizes is `refused`.
        """
        store, result = as_mapping(store), as_mapping(result)
        model, wanted = store.get("model", EMBEDDED.name), as_mapping(store.get("machine"))
        if not isinstance(model, str):
            raise InvalidSettingError("model", model, "text")
        lengths = None
        if as_mapping(result.get("request")).get("model") == model:
            counts = as_mapping(result.get("num_tokens"))
            lengths = tuple(_size(side, counts.get(side), 1, MAX_TOKENS) for side in ("source", "target"))
        config = one_of("config", wanted.get("config", "loaded"), CONFIGS)
        own = wanted.get("typed" if config == "own" else "own")
        try:
            return cls(model, config, None if own is None else OwnSizes.checked(own), lengths)
        except AtlasError as error:
            return cls(model, "loaded" if config == "own" else config, None, lengths, error)


def machine_value(choice: MachineChoice, translator: Translator | None) -> str:
    """The form above. Without a translator, or with one that says nothing of its sizes, "loaded" is shown as the base model."""
    loaded = translator.config if translator is not None and isinstance(translator.config, TransformerConfig) else None
    own = choice.own or OwnSizes.of(loaded or PRESETS["base"])
    known = {"loaded": loaded, **PRESETS, "own": own.config if choice.own or choice.config == "own" else None}
    shown = choice.config if known[choice.config] is not None else "base"
    asked = {"model": choice.model, "config": choice.config, "own": choice.own and choice.own.as_dict(), "lengths": choice.lengths}
    value = {
        "asked": asked,
        "picture": {"config": shown, **picture(known[shown], choice.lengths)},
        "compare": [_compared(name, config, choice.lengths) for name, config in known.items() if config is not None],
        "own": own.as_dict(),
        "same": [name for name in CONFIGS[:3] if known[name] is not None and _chosen(known[name]) == _chosen(own.config)],
        "uneven": loaded is not None and _common(loaded, "encoder") != _common(loaded, "decoder"),
        "refused": choice.refused and notice(choice.refused),
        "facts": None if loaded is None else facts(translator),
    }
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def picture(config: TransformerConfig, lengths: tuple[int, int] | None) -> dict[str, Any]:
    """Everything of one configuration that is drawn or written; plain JSON values."""
    counted = None if lengths is None else operations(config, *lengths)
    return {
        "sizes": _sizes(config),
        "places": {
            name: {
                "tensors": [[tensor, list(shape)] for tensor, shape in place.tensors.items()],
                "count": place.count,
                "times": times(config, name),
                "shared": place.shared,
                "operations": counted and counted[name],
            }
            for name, place in places(config).items()
        },
        "shapes": {name: list(shape) for name, shape in shapes(config, *(lengths or ("S", "T"))).items()},
        "total": total_parameters(config),
        "operations": _total_operations(config, lengths),
        "tying": list(tying(config)),
    }


def facts(translator: Translator) -> dict[str, Any]:
    """What is known of a loaded checkpoint beside its sizes. Plain JSON values."""
    return {
        "name": translator.name,
        "revision": translator.revision,
        "source": translator.source_language,
        "targets": list(translator.targets),
        "dtype": translator.dtype,
        "device": translator.device,
        "bytes": translator.num_bytes,
        **_sizes(translator.config),
    }


def _sizes(config: TransformerConfig) -> dict[str, Any]:
    def stack(name: str) -> dict[str, int]:
        sizes = getattr(config, name)
        heads = {"heads": sizes.num_heads, "head_dim": config.d_model // sizes.num_heads}
        return {"layers": sizes.num_layers, **heads, "d_ff": sizes.d_ff, "vocab_size": sizes.vocab_size}

    return {
        "d_model": config.d_model,
        "norm": config.norm,
        "activation": config.activation,
        "layout": config.position_layout,
        "scale": math.sqrt(config.d_model) if config.scale_embedding else 1.0,
        "dropout": config.dropout,
        "eps": config.layer_norm_eps,
        "tied": "all" if config.tie_embeddings else "output" if config.tie_output else "none",
        "output_bias": config.output_bias,
        "max_len": config.max_len,
        "encoder": stack("encoder"),
        "decoder": stack("decoder"),
    }


def _common(config: TransformerConfig, stack: str) -> dict[str, int]:
    """What the two stacks of one's own configuration have in common."""
    return {name: size for name, size in _sizes(config)[stack].items() if name != "layers"}


def _chosen(config: TransformerConfig) -> list[object]:
    """What one's own sizes say of a configuration, and what they come to: biases of the output are no choice there."""
    sizes = _sizes(config)
    return [total_parameters(config), *(sizes[name] for name in ("d_model", "norm", "tied", "encoder", "decoder"))]


def _compared(name: str, config: TransformerConfig, lengths: tuple[int, int] | None) -> dict[str, Any]:
    counted = {"operations": _total_operations(config, lengths), "parts": count_parameters(config)}
    return {"config": name, "total": total_parameters(config), **counted}


def _total_operations(config: TransformerConfig, lengths: tuple[int, int] | None) -> int | None:
    return None if lengths is None else sum(count * times(config, name) for name, count in operations(config, *lengths).items())


def _size(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, float) and value.is_integer():  # JavaScript knows no integers
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SizeError(name, value, low, high)
    return value
