"""From a run folder to the checkpoint that is shipped: averaged weights, vocabulary, model card, the recorded example and the scores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from model.checkpoint import load_config, load_state, save_checkpoint
from model.config import TransformerConfig, count_parameters
from model.recording import save_run
from model.tokenizer import TOKENIZER_FILE
from model.training.loop import average_snapshots
from model.transformer import Transformer
from model.translator import Translator, load_translator

EVALUATION_FILE = "evaluation.json"
TRAINING_FILE = "training.json"
EXAMPLE_FILE = "example.npz"
EXAMPLE_TEXT, EXAMPLE_TARGET = "I am a student.", "fra"
LANGUAGES = {"fra": "French", "cmn": "Chinese (simplified)"}

CARD = """\
---
license: cc-by-2.0
language: [en, fr, zh]
pipeline_tag: translation
---
# The embedded translator: English to French and to Chinese

A plain encoder-decoder Transformer (Vaswani et al. 2017) of {parameters:,} parameters, small enough to translate at once on a processor and
trained from scratch for Attention Atlas. The target language is chosen by a source prefix, `>>fra<<` or `>>cmn<<`. This card is written by
`python -m model.training export` from the run's own figures.

## Architecture
{architecture}

## Scores
Beam {beam_size}, on held-out sentences that were never trained on, each source once against all its references.

| into | sentences | BLEU | chrF | sacrebleu signature |
|---|---|---|---|---|
{scores}

## Alignment
{alignment}

## Training
{steps:,} updates ({epochs} passes over {pairs:,} pairs, {tokens:,} target tokens) in {hours:.1f} hours of computation; the last
{snapshots} snapshots averaged.

| setting | value |
|---|---|
{settings}

To reproduce: `python -m model.training prepare --data FOLDER`, then `train`, `evaluate` and `export`; each explains its options with
`--help`.

## Data and credit
Sentence pairs of [Tatoeba](https://tatoeba.org) by its contributors, by way of manythings.org/anki (tab-delimited bilingual pairs),
licence CC BY 2.0 FR. Beside them, in the training split only: {extra}.

## Known weaknesses
It has seen short everyday sentences, nothing else: long or technical text comes out badly, rare names and words are guessed at, and it has
no idea of the world. What it makes of a few sentences:

{examples}
"""

EXTRA_CREDIT = {
    "tico19": "TICO-19 (Anastasopoulos et al. 2020, CC0 1.0)",
    "convlab": "the human-checked dialogue translations of ConvLab-2 (Zhu et al. 2020, Apache-2.0)",
    "diabla": "DiaBLa (Bawden et al. 2021, CC BY-SA 4.0)",
}


def build(run: Path, data: Path, out: Path, average: int) -> Translator:
    """Averages the last `average` snapshots of `run` and writes the checkpoint with its vocabulary to `out`. Returns it, loaded from there.

    Raises FileNotFoundError if the run has no snapshots.
    """
    facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
    model = Transformer(TransformerConfig(**facts["config"]))
    state, names = average_snapshots(run, average)
    # Tied embeddings stand in the state twice; the checkpoint holds them once.
    if model.config.tie_embeddings:
        del state["tgt_embedding.tokens.weight"]
    load_state(model, state, "snapshots")
    save_checkpoint(model, out)
    shutil.copyfile(data / TOKENIZER_FILE, out / TOKENIZER_FILE)
    log = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    reached = next(entry for entry in reversed(log) if entry["step"] == int(names[-1]))
    prepared = json.loads((data / "prepared.json").read_text(encoding="utf-8"))
    training = {"reached": reached, "snapshots": [int(name) for name in names], "prepared": prepared}
    training |= {name: facts[name] for name in ("settings", "sampling")}
    _write_json(out / TRAINING_FILE, training)
    return load_translator(out, "cpu")


def record_example(out: Path) -> None:
    """Translates the worked example and stores the run with all its maps: the page's first picture."""
    translator = load_translator(out, "cpu")
    target = EXAMPLE_TARGET if EXAMPLE_TARGET in translator.targets else translator.targets[0]
    translation = translator.translate(EXAMPLE_TEXT, target)
    save_run(out / EXAMPLE_FILE, translation, translator.trace(translation))


def write_card(out: Path) -> None:
    """Writes the model card from config.json, training.json and evaluation.json. Raises FileNotFoundError if one is missing."""
    config = load_config(out)
    training = json.loads((out / TRAINING_FILE).read_text(encoding="utf-8"))
    evaluation = json.loads((out / EVALUATION_FILE).read_text(encoding="utf-8"))
    parts = count_parameters(config)
    rows = [
        ("layers", f"{config.num_encoder_layers} encoder, {config.num_decoder_layers} decoder"),
        ("d_model, heads, d_ff", f"{config.d_model}, {config.num_heads}, {config.d_ff}"),
        ("normalisation, activation", f"{config.norm}-norm, {config.activation}"),
        ("vocabulary", f"{config.vocab_size:,} SentencePiece unigram pieces, shared, byte fallback"),
        ("embeddings", "source, target and output tied" if config.tie_embeddings else "not tied"),
        ("positions", f"sinusoidal, {config.position_layout}"),
    ]
    rows += [(f"parameters: {name.replace('_', ' ')}", f"{count:,}") for name, count in parts.items() if count]
    settings = {**training["settings"], "dropout": config.dropout, **training["sampling"]}
    scores = [
        f"| {LANGUAGES.get(target, target)} | {s['sentences']:,} | {s['bleu']} | {s['chrf']} | `{s['signature']}` |"
        for target, s in evaluation["scores"].items()
    ]
    extra = [EXTRA_CREDIT.get(name, name) for name in training["prepared"]["extra"]]
    card = CARD.format(
        parameters=sum(parts.values()),
        architecture="\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]),
        beam_size=evaluation["beam_size"],
        scores="\n".join(scores),
        alignment=_alignment_text(evaluation.get("alignment")),
        steps=training["reached"]["step"],
        epochs=training["reached"]["epoch"],
        pairs=sum(training["prepared"]["train"].values()),
        tokens=training["reached"]["tokens"],
        hours=training["reached"]["seconds"] / 3600,
        snapshots=len(training["snapshots"]),
        settings="\n".join(f"| {name.replace('_', ' ')} | {value} |" for name, value in settings.items()),
        extra="; ".join(extra) if extra else "nothing",
        examples="\n\n".join(_example_table(target, pairs) for target, pairs in evaluation["examples"].items()),
    )
    (out / "README.md").write_text(card, encoding="utf-8")


def write_evaluation(out: Path, measured: dict) -> None:
    """Stores what was measured ({"beam_size", "scores", "examples", perhaps "alignment"}) beside the weights."""
    _write_json(out / EVALUATION_FILE, measured)


def _alignment_text(measured: dict | None) -> str:
    if measured is None:
        return "Not measured for this export."
    rows = []
    for labelling, word in (("predicted", "predicted"), ("read", "read")):
        rates = measured[labelling]
        best, layers = rates["best"], ", ".join(f"L{i} {rate:.2f}" for i, rate in enumerate(rates["layers"]))
        rows.append(f"| {word} | L{best['layer']} H{best['head']}: {best['aer']:.2f} | {layers} | {rates['all']:.2f} |")
    head = (
        f"Alignment error rate of cross-attention (0 is perfect) on {measured['sentences']} sentence pairs of French stories\n"
        "aligned by hand (Alibi, CC BY-SA 4.0), the reference given, one link per French word. Attention was not trained towards it.\n\n"
        "| rows labelled by the token | best head | mean of each layer | mean of all |\n|---|---|---|---|\n"
    )
    return head + "\n".join(rows)


def _example_table(target: str, pairs: dict[str, str]) -> str:
    rows = ("| {} | {} |".format(*(side.replace("|", "\\|") for side in pair)) for pair in pairs.items())
    return "\n".join([f"| English | {LANGUAGES.get(target, target)} |", "|---|---|", *rows])


def _write_json(path: Path, values: dict) -> None:
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
