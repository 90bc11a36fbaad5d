"""What a page sends, each part of it right or anything at all: the shown result, the store, and the inputs of each event."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.fuzz.strategies import json_values, mapping_of, texts

KINDS = st.sampled_from(("encoder_self", "decoder_self", "cross"))
small = st.integers(-1, 3)
SENTENCES = st.sampled_from(("I am a student.", "I love you.", "The cat sat on the mat."))

requests = mapping_of({
    "text": SENTENCES,
    "target": st.sampled_from(("fra", "cmn")),
    "beam_size": st.sampled_from((1, 2)),
    "given": st.none() | st.just("Je suis étudiant."),
    "recorded": st.just(False),
    "model": st.just("embedded"),
})
results = mapping_of({"request": requests, "num_tokens": mapping_of({"source": small, "target": small}), "badge": st.just("live")})

stores = mapping_of({
    "lang": st.sampled_from(("en", "zh")),
    "model": st.just("embedded"),
    "target": st.sampled_from(("fra", "cmn")),
    "beam_size": st.sampled_from((1, 2)),
    "forced": st.booleans(),
    "kind": KINDS,
    "layer": small,
    "head": small | st.sampled_from(("mean", "max", "rollout", "norm")),
    "rows": st.sampled_from(("predicted", "read")),
    "units": st.sampled_from(("pieces", "words")),
    "specials": st.sampled_from(("shown", "hidden")),
    "colour": st.sampled_from(("linear", "max", "log")),
    "wanted_layer": mapping_of({"kind": KINDS, "layer": small}),
    "exporting": mapping_of({"form": st.sampled_from(("csv_map", "csv", "json", "npz", "html")), "serial": small, "row": small}),
    "steps": mapping_of({"row": st.integers(0, 40), "without": st.sampled_from(("", "positions", "causal_mask"))}),
    "cell": mapping_of({"stage": st.sampled_from(("q", "k", "logit")), "index": small, "key": small, "after": st.booleans()}),
    "wanted": mapping_of({"name": st.sampled_from(("embedded", "Helsinki-NLP/opus-mt-en-gone", "../..")), "again": st.booleans()}),
    "positions": mapping_of({
        "length": st.integers(1, 60),
        "pairs": st.lists(small, min_size=1, max_size=4),
        "axis": st.sampled_from(("linear", "log")),
        "tokens": st.booleans(),
    }),
    "position_sentence": mapping_of({
        "side": st.sampled_from(("source", "read")),
        "places": st.none() | st.lists(small, min_size=2, max_size=2),
    }),
    "word_order": mapping_of({"seed": st.integers(0, 9), "order": st.none() | st.lists(small, max_size=8)}),
    "machine": mapping_of({
        "config": st.sampled_from(("loaded", "base", "big", "own")),
        "own": mapping_of({"d_model": small, "num_heads": small, "norm": st.sampled_from(("pre", "post"))}),
        "typed": mapping_of({"d_model": st.sampled_from((8, 16384, 7)), "num_heads": small, "num_encoder_layers": small, "d_ff": small}),
    }),
    "lab": mapping_of({"second": SENTENCES, "depth": st.none() | small, "keys": mapping_of({"masks": st.text(max_size=200)})}),
})
anything_sent = json_values() | json_values(texts)
