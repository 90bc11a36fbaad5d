"""A whole tiny translator for tests: a SentencePiece model of a few sentences, and a model that has learned some of them."""

from __future__ import annotations

import io
from pathlib import Path

import sentencepiece
import torch
import torch.nn.functional as F
from torch import nn

from model.checkpoint import save_checkpoint
from model.config import TransformerConfig
from model.tokenizer import TOKENIZER_FILE, Tokenizer
from model.transformer import Transformer

SENTENCES = (
    "I am a student.",
    "I love you.",
    "The cat sat on the mat, and the dog saw the cat.",
    "She gave him 12 apples; didn't she?",
    "Je suis étudiant.",
    "Je t'aime.",
    "Le chat est assis sur le tapis, et le chien a vu le chat.",
    "Où est la gare ?",
    "我爱你。",
    "你好吗？我是学生。",
)
PAIRS = (
    ("I am a student.", "fra", "Je suis étudiant."),
    ("I am a student.", "cmn", "我是学生。"),
    ("I love you.", "fra", "Je t'aime."),
    ("I love you.", "cmn", "我爱你。"),
    ("The cat sat on the mat.", "fra", "Le chat est assis sur le tapis."),
    ("The cat sat on the mat.", "cmn", "你好吗？"),
    ("The dog saw the cat.", "fra", "Le chien a vu le chat."),
    ("The dog saw the cat.", "cmn", "你好吗？我是学生。"),
)
# The one rule of the embedded model's vocabulary that changes a visible character.
APOSTROPHE_RULE = "2019\t27\n"


def train_tokenizer(path: Path, rules: str = "") -> Path:
    """Writes a SentencePiece model with the settings of the embedded one; `rules` is its normalisation table, if any."""
    if rules:
        table = path.with_suffix(".tsv")
        table.write_text(rules, encoding="utf-8")
        normalisation = {"normalization_rule_tsv": str(table)}
    else:
        normalisation = {"normalization_rule_name": "identity"}
    proto = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=proto,
        model_type="unigram",
        vocab_size=400,
        hard_vocab_limit=False,
        byte_fallback=True,
        split_digits=True,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        control_symbols=">>fra<<,>>cmn<<",
        num_threads=1,
        minloglevel=2,
        **normalisation,
    )
    path.write_bytes(proto.getvalue())
    return path


def tiny_config(vocab_size: int, **changes: object) -> TransformerConfig:
    """Two layers a side, width 16, two heads. The output bias is there so that `random_model` can make the end token likely."""
    sizes: dict[str, object] = {
        "d_model": 16,
        "num_heads": 2,
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "d_ff": 32,
        "max_len": 64,
        "output_bias": True,
    }
    return TransformerConfig(vocab_size=vocab_size, **{**sizes, **changes})


def random_model(config: TransformerConfig, seed: int = 0, eos_bias: float = 0.0) -> Transformer:
    """Fixed random weights far from their initialisation, so that attention is not uniform and no bias is zero."""
    model = Transformer(config).eval()
    generator = torch.Generator().manual_seed(seed)
    norms = {id(module.weight) for module in model.modules() if isinstance(module, nn.LayerNorm)}
    with torch.no_grad():
        for parameter in model.parameters():
            # A matrix's rows reach length 1.5 at any width; at width 16 its values have a deviation of 0.375.
            scale = 1.5 * parameter.shape[-1] ** -0.5 if parameter.dim() == 2 else 0.3
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator) + float(id(parameter) in norms))
        if model.output_bias is not None:
            model.output_bias[config.eos_id] += eos_bias
    return model


def taught_model(config: TransformerConfig, tokenizer: Tokenizer, steps: int = 200) -> Transformer:
    """`random_model` after two seconds of training on PAIRS with a fixed seed: its outputs are varied and end, which random weights alone,
    stuck on one token, never give. Not yet certain, so that beams part."""
    model = random_model(config)
    src = [torch.tensor(tokenizer.encode_source(source, target)) for source, target, _ in PAIRS]
    tgt = [torch.tensor([config.bos_id, *tokenizer.encode_target(translation)]) for _, _, translation in PAIRS]
    src_ids, tgt_ids = (nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=config.pad_id) for ids in (src, tgt))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        logits = model(src_ids, tgt_ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tgt_ids[:, 1:].flatten(), ignore_index=config.pad_id)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def tiny_folder(folder: Path, model: Transformer, tokenizer_file: Path) -> Path:
    """A checkpoint folder; in float32, so that what is loaded equals `model` bit by bit."""
    save_checkpoint(model, folder, dtype=torch.float32)
    (folder / TOKENIZER_FILE).write_bytes(tokenizer_file.read_bytes())
    return folder
