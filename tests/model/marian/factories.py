"""Whole Marian model folders with random weights, written file by file as OPUS-MT repositories hold them; the reference reads them."""

# V source vocabulary, Vd target vocabulary, D d_model

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.model.marian import corpus

if TYPE_CHECKING:
    from transformers import MarianMTModel, MarianTokenizer

EOS, UNK, PAD = "</s>", "<unk>", "<pad>"
# The two stacks differ in everything, so that a list built for the wrong one fails.
SIZES: dict[str, object] = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 64,
}
# A piece that SentencePiece makes and vocab.json lacks becomes <unk>: real repositories have some.
ABSENT = ("z", "&")


def make_marian_folder(
    path: Path,
    *,
    seed: int = 0,
    form: str = "safetensors",
    dtype: torch.dtype = torch.float32,
    targets: Sequence[str] = (),
    separate_vocabs: bool = False,
    byte_fallback: bool = False,
    generation: Mapping[str, object] | None = None,
    generation_file: bool = True,
    tokenizer_config: Mapping[str, object] | None = None,
    **config_overrides: object,
) -> Path:
    """Writes config.json, generation_config.json, weights, source.spm, target.spm, vocab.json and tokenizer_config.json; returns `path`.

    form              "safetensors", "sharded", "bin" (zip) or "legacy_bin" (before torch 1.6)
    targets           codes of a multilingual model: vocab.json gets `>>code<<` for each
    separate_vocabs   a target_vocab.json of another size, share_encoder_decoder_embeddings false
    generation        changes to generation_config.json; without `generation_file` they stand in config.json, as in old repositories
    config_overrides  changes to config.json; `init_std` is the deviation of the random matrices, `eos_token_id` moves </s> and <unk>

    The source language is "en", the target "fr" (its text is French and Chinese), unless `tokenizer_config` says otherwise.
    """
    path.mkdir(parents=True, exist_ok=True)
    eos_id = config_overrides.get("eos_token_id", 0)
    source, target = corpus.pieces("source", byte_fallback), corpus.pieces("target", byte_fallback)
    codes = [f">>{code}<<" for code in targets]
    if separate_vocabs:
        pad_id = min(len(source) + len(codes), len(target)) + 2 - len(ABSENT)
        vocab, target_vocab = vocabulary(codes, source, eos_id, pad_id), vocabulary([], target, eos_id, pad_id)
        _write_json(path / "target_vocab.json", target_vocab)
    else:
        union = list(dict.fromkeys(source + target))
        pad_id = len(union) + len(codes) + 2 - len(ABSENT)  # the last one, as everywhere on the Hub
        vocab = target_vocab = vocabulary(codes, union, eos_id, pad_id)
    _write_json(path / "vocab.json", vocab)
    for side in ("source", "target"):
        (path / f"{side}.spm").write_bytes(corpus.sentencepiece_model(side, byte_fallback))
    names: dict[str, object] = {"source_lang": "en", "target_lang": "mul" if targets else "fr"}
    if separate_vocabs:
        names["separate_vocabs"] = True
    _write_json(path / "tokenizer_config.json", names | dict(tokenizer_config or {}))

    config = marian_config(len(vocab), len(target_vocab), eos_id, pad_id, **config_overrides)
    if separate_vocabs:
        config["share_encoder_decoder_embeddings"] = False
    rules = {
        "bad_words_ids": [[pad_id]],
        "bos_token_id": 0,
        "decoder_start_token_id": pad_id,
        "eos_token_id": eos_id,
        "forced_eos_token_id": eos_id,
        "max_length": 32,
        "num_beams": 4,
        "pad_token_id": pad_id,
        "renormalize_logits": True,
        **(generation or {}),
    }
    _write_json(path / "config.json", config if generation_file else rules | config)
    if generation_file:
        _write_json(path / "generation_config.json", rules)
    save_weights(path, stored(random_state(config, seed), config), form, dtype)
    return path


def vocabulary(codes: Sequence[str], pieces: Sequence[str], eos_id: int, pad_id: int) -> dict[str, int]:
    """token -> id, with </s> at `eos_id`, <unk> after it, <pad> at `pad_id` and the rest in order around them."""
    special = {EOS: eos_id, UNK: eos_id + 1, PAD: pad_id}
    rest = iter([*codes, *(piece for piece in pieces if piece not in ABSENT)])
    size = len(codes) + len([piece for piece in pieces if piece not in ABSENT]) + len(special)
    by_id = {i: token for token, i in special.items()}
    return {by_id[i] if i in by_id else next(rest): i for i in range(size)}


def marian_config(vocab_size: int, tgt_vocab_size: int, eos_id: int, pad_id: int, **overrides: object) -> dict[str, object]:
    """config.json with the entries of a real one, those included that no code reads."""
    config: dict[str, object] = {
        "_num_labels": 3,
        "activation_dropout": 0.0,
        "activation_function": "swish",
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "architectures": ["MarianMTModel"],
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "classif_dropout": 0.0,
        "decoder_start_token_id": pad_id,
        "dropout": 0.1,
        "eos_token_id": eos_id,
        "init_std": 0.35,
        "is_encoder_decoder": True,
        "model_type": "marian",
        "normalize_before": False,
        "normalize_embedding": False,
        "pad_token_id": pad_id,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "vocab_size": vocab_size,
        **SIZES,
        **overrides,
    }
    if tgt_vocab_size != vocab_size:
        config.setdefault("decoder_vocab_size", tgt_vocab_size)
    config.setdefault("num_hidden_layers", config["encoder_layers"])
    return config


def random_state(config: Mapping[str, object], seed: int = 0) -> dict[str, Tensor]:
    """Every tensor a Marian model can have, before tying: matrices of deviation `init_std`, biases and norms away from zero and one.

    Ending is likely and padding, which generation bans, likelier still: both paths are taken often."""
    generator = torch.Generator().manual_seed(seed)
    d_model, vocab_size = config["d_model"], config["vocab_size"]
    tgt_vocab_size = vocab_size if config.get("share_encoder_decoder_embeddings", True) else config.get("decoder_vocab_size") or vocab_size

    def matrix(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) * config["init_std"]

    def vector(size: int, mean: float = 0.0) -> Tensor:
        return torch.randn(size, generator=generator) * 0.3 + mean

    state = {
        "model.shared.weight": matrix(vocab_size, d_model),
        "model.encoder.embed_tokens.weight": matrix(vocab_size, d_model),
        "model.decoder.embed_tokens.weight": matrix(tgt_vocab_size, d_model),
        "lm_head.weight": matrix(tgt_vocab_size, d_model),
        "final_logits_bias": vector(tgt_vocab_size)[None],
    }
    state["final_logits_bias"][0, config["eos_token_id"]] += 1.0
    state["final_logits_bias"][0, config["pad_token_id"]] += 2.0
    for side, attentions in (("encoder", ("self_attn",)), ("decoder", ("self_attn", "encoder_attn"))):
        for layer in range(config[f"{side}_layers"]):
            at = f"model.{side}.layers.{layer}"
            for attention in attentions:
                for part in ("k_proj", "v_proj", "q_proj", "out_proj"):
                    state[f"{at}.{attention}.{part}.weight"] = matrix(d_model, d_model)
                    state[f"{at}.{attention}.{part}.bias"] = vector(d_model)
            for norm in (*(f"{attention}_layer_norm" for attention in attentions), "final_layer_norm"):
                state[f"{at}.{norm}.weight"] = vector(d_model, mean=1.0)
                state[f"{at}.{norm}.bias"] = vector(d_model)
            d_ff = config[f"{side}_ffn_dim"]
            state |= {f"{at}.fc1.weight": matrix(d_ff, d_model), f"{at}.fc1.bias": vector(d_ff)}
            state |= {f"{at}.fc2.weight": matrix(d_model, d_ff), f"{at}.fc2.bias": vector(d_model)}
    return state


def stored(state: Mapping[str, Tensor], config: Mapping[str, object]) -> dict[str, Tensor]:
    """What a file holds of these tensors: aliases once when tied, all four matrices when not."""
    shared, tied = config.get("share_encoder_decoder_embeddings", True), config.get("tie_word_embeddings", True)
    absent = {"lm_head.weight"} if tied else set()
    if not shared:
        absent |= {"model.shared.weight"}
    elif tied:
        absent |= {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
    return {key: value for key, value in state.items() if key not in absent}


def save_weights(path: Path, state: Mapping[str, Tensor], form: str = "safetensors", dtype: torch.dtype = torch.float32) -> None:
    """Writes the tensors as model.safetensors, as two shards with an index, or as pytorch_model.bin of either format."""
    state = {key: value.to(dtype).contiguous() for key, value in state.items()}
    if form == "safetensors":
        save_file(state, path / "model.safetensors", metadata={"format": "pt"})
    elif form == "sharded":
        keys = sorted(state)
        halves = {f"model-0000{i + 1}-of-00002.safetensors": keys[i::2] for i in range(2)}
        for name, part in halves.items():
            save_file({key: state[key] for key in part}, path / name, metadata={"format": "pt"})
        weight_map = {key: name for name, part in halves.items() for key in part}
        _write_json(path / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})
    elif form in ("bin", "legacy_bin"):
        torch.save(state, path / "pytorch_model.bin", _use_new_zipfile_serialization=form == "bin")
    else:
        raise ValueError(f"unknown form {form!r}")


def load_reference(path: Path) -> MarianMTModel:
    """transformers' model of this folder: eager attention, float32, evaluation mode. Fails if any tensor was missing or left over."""
    from transformers import MarianMTModel

    model, report = MarianMTModel.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True, local_files_only=True
    )
    problems = {what: found for what, found in report.items() if found}
    assert not problems, problems
    return model.eval()


def load_reference_tokenizer(path: Path) -> MarianTokenizer:
    from transformers import MarianTokenizer

    return MarianTokenizer.from_pretrained(path, local_files_only=True)


def _write_json(path: Path, values: Mapping[str, object]) -> None:
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
