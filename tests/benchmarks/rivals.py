"""One set of weights in three programs: ours, the transformers package, and CTranslate2, each with the same ids to translate.

Two models: the embedded one, and one of the size of OPUS-MT's (512, 6 + 6 layers, 8 heads, 59,514 tokens) with random weights in Marian's
files. transformers reads Marian's files itself; the embedded model goes into its M2M100, which has the same computation (norm before
the sublayers, ReLU, one matrix for all embeddings, and a table of positions that is replaced by ours). CTranslate2 gets both by its own
converter, in float32. CTranslate2 is installed for the benchmark only, into the git-ignored folder .bench/, by
`python -m tests.benchmarks.rivals`; transformers is among the requirements of the tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from model.checkpoint import load_checkpoint
from model.loading import load_translator
from model.marian.weights import layer_keys
from model.tokenizer import TOKENIZER_FILE, Tokenizer
from model.translator import Translator
from tests.benchmarks.bertviz_pages import PACKAGES
from tests.model.marian import corpus, factories

if TYPE_CHECKING:
    import ctranslate2
    from transformers import PreTrainedModel

EMBEDDED, BASE = "embedded", "base"
MODELS = (EMBEDDED, BASE)
WEIGHTS = Path(__file__).parents[2] / "model" / "weights"
CTRANSLATE2 = "ctranslate2==4.8.5"
BASE_VOCABULARY = 59_514
BASE_SIZES = {
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "max_position_embeddings": 512,
    # Every layer then keeps the size of what goes through it, and no token is likelier than a thousandth.
    "init_std": 512**-0.5,
}


def install() -> None:
    """CTranslate2 from PyPI into .bench/, alone: all that it imports is there already. Raises CalledProcessError if pip fails."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(PACKAGES), "--no-deps", CTRANSLATE2]
    subprocess.run(pip, check=True)


def import_ctranslate2() -> object:
    """The package, from .bench/. Raises ImportError, with the command that installs it."""
    if str(PACKAGES) not in sys.path:
        sys.path.append(str(PACKAGES))  # last: what the app has installed goes first
    try:
        import ctranslate2
    except ImportError as error:
        raise ImportError("CTranslate2 is missing. Install it with: python -m tests.benchmarks.rivals") from error
    return ctranslate2


# --- ours ---


class _Endless(Tokenizer):
    """Never writes the end: all programs are to write the same number of tokens."""

    @property
    def never_generated(self) -> tuple[int, ...]:
        return (*super().never_generated, self.eos_id)


def our_translator(model: str, folder: Path, device: str = "cpu") -> Translator:
    """Ours, which writes as many tokens as `max_new_tokens` says. folder: that of the base model."""
    if model == BASE:
        return load_translator(folder, device)  # its files ban the end
    return Translator(load_checkpoint(WEIGHTS, torch.device(device)), _Endless(WEIGHTS / TOKENIZER_FILE), EMBEDDED)


def write_base_folder(path: Path) -> Path:
    """A Marian folder of the size of OPUS-MT's. Its start token embeds as zeros, as theirs does, and is never likely; so does its pad,
    which is the same token."""
    path.mkdir(parents=True, exist_ok=True)
    pieces = list(dict.fromkeys(corpus.pieces("source") + corpus.pieces("target")))
    made_up = [f"▁unseen{i}" for i in range(BASE_VOCABULARY)]
    pad_id = BASE_VOCABULARY - 1
    # Three are special, and `vocabulary` leaves out those that are ABSENT.
    pieces = [piece for piece in [*pieces, *made_up] if piece not in factories.ABSENT][: BASE_VOCABULARY - 3]
    vocab = factories.vocabulary([], pieces, 0, pad_id)
    for side in ("source", "target"):
        (path / f"{side}.spm").write_bytes(corpus.sentencepiece_model(side))
    config = factories.marian_config(BASE_VOCABULARY, BASE_VOCABULARY, 0, pad_id, **BASE_SIZES)
    rules = {
        "bad_words_ids": [[pad_id], [0]],  # the end too: see _Endless
        "decoder_start_token_id": pad_id,
        "eos_token_id": 0,
        "max_length": 512,
        "num_beams": 4,
        "pad_token_id": pad_id,
        "renormalize_logits": True,
    }
    files = {"vocab": vocab, "tokenizer_config": {"source_lang": "en", "target_lang": "fr"}, "config": config, "generation_config": rules}
    for name, values in files.items():
        (path / f"{name}.json").write_text(json.dumps(values, ensure_ascii=False) + "\n", encoding="utf-8")
    state = factories.random_state(config, seed=7)
    state["model.shared.weight"][pad_id] = 0.0
    state["final_logits_bias"] *= 0.1
    state["final_logits_bias"][0, pad_id] = -100.0
    factories.save_weights(path, factories.stored(state, config))
    return path


# --- transformers ---


def transformers_model(model: str, folder: Path) -> PreTrainedModel:
    """Its model with eager attention, in float32, in evaluation mode. Nothing that it generates is banned, and no rule is applied."""
    from transformers import GenerationConfig

    made = factories.load_reference(folder) if model == BASE else _as_m2m100(our_translator(model, folder))
    config = made.config
    made.generation_config = GenerationConfig(
        decoder_start_token_id=config.decoder_start_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
    )
    return made


def _as_m2m100(translator: Translator) -> PreTrainedModel:
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    ours, sizes = translator.model, translator.config
    if (sizes.norm, sizes.activation, sizes.tie_embeddings, sizes.output_bias) != ("pre", "relu", True, False):
        raise ValueError(f"M2M100 computes something else than {sizes}")
    config = M2M100Config(
        vocab_size=sizes.vocab_size,
        d_model=sizes.d_model,
        encoder_layers=sizes.num_encoder_layers,
        decoder_layers=sizes.num_decoder_layers,
        encoder_attention_heads=sizes.encoder.num_heads,
        decoder_attention_heads=sizes.decoder.num_heads,
        encoder_ffn_dim=sizes.encoder.d_ff,
        decoder_ffn_dim=sizes.decoder.d_ff,
        max_position_embeddings=sizes.max_len,
        scale_embedding=sizes.scale_embedding,
        pad_token_id=sizes.pad_id,
        bos_token_id=sizes.bos_id,
        eos_token_id=sizes.eos_id,
        decoder_start_token_id=sizes.bos_id,
    )
    made = M2M100ForConditionalGeneration._from_config(config, attn_implementation="eager")
    held = ours.state_dict()
    state = {theirs: held[name] for theirs, name, _ in layer_keys(sizes)}
    embedding = held["src_embedding.tokens.weight"]
    state |= dict.fromkeys(
        ("model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"), embedding
    )
    for side in ("encoder", "decoder"):
        state |= {f"model.{side}.layer_norm.{part}": held[f"{side}_norm.{part}"] for part in ("weight", "bias")}
    made.load_state_dict(state)
    for stack in (made.model.encoder, made.model.decoder):
        table = stack.embed_positions
        table.weights[table.padding_idx + 1 :][: sizes.max_len] = ours.positions  # its positions begin behind that of the padding
    return made.eval()


# --- CTranslate2 ---


def ctranslate2_model(model: str, folder: Path, into: Path, threads: int, device: str = "cpu") -> ctranslate2.Translator:
    """Its translator with float32 weights, converted by its own converter into the folder `into` the first time."""
    ct2 = import_ctranslate2()
    if not (into / "model.bin").exists():
        from ctranslate2.converters.transformers import M2M100Loader, MarianMTLoader

        reference = transformers_model(model, folder)
        vocab_size, config = reference.config.vocab_size, reference.config
        with torch.no_grad():
            if model == BASE:  # leaves out the padding, and starts from zeros instead of its row
                spec, vocab_size = MarianMTLoader().get_model_spec(reference), vocab_size - 1
                start = token(config.eos_token_id)
            else:
                spec, start = M2M100Loader().get_model_spec(reference), token(config.decoder_start_token_id)
                for stack, theirs in ((spec.encoder, reference.model.encoder), (spec.decoder, reference.model.decoder)):
                    table = theirs.embed_positions
                    stack.position_encodings.encodings = table.weights[table.padding_idx + 1 :]
            names = [token(i) for i in range(vocab_size)]
            spec.register_source_vocabulary(names)
            spec.register_target_vocabulary(names)
            spec.config.eos_token, spec.config.decoder_start_token = token(config.eos_token_id), start
            spec.config.unk_token, spec.config.bos_token = token(unknown_id(model)), start
            spec.validate()
            spec.optimize()
            into.mkdir(parents=True, exist_ok=True)
            spec.save(str(into))
    return ct2.Translator(str(into), device=device, compute_type="float32", inter_threads=1, intra_threads=threads)


def unknown_id(model: str) -> int:
    return 1 if model == BASE else 3


def token(token_id: int) -> str:
    """CTranslate2 reads and writes words: each id as one."""
    return f"t{token_id}"


def token_id(word: str) -> int:
    return int(word.removeprefix("t"))


if __name__ == "__main__":
    try:
        import_ctranslate2()
    except ImportError:
        install()
        import_ctranslate2()
