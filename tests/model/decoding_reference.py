"""What the tests of decoding share: small models, and log-probabilities by full passes, without cache or inference mode."""

from __future__ import annotations

import math

import torch

from tests.tiny import random_model, tiny_config

BOS, EOS = 1, 2
BANNED = (0, 1, 3)
SRC_IDS = [4, 5, 6, 4, 2]


def finish(decoding):
    """The steps and the hypotheses of a decoding."""
    steps = []
    while True:
        try:
            steps.append(next(decoding))
        except StopIteration as stop:
            return steps, stop.value


def small_model(vocab_size=7, seed=0, eos_bias=1.0, **changes):
    return random_model(tiny_config(vocab_size, **changes), seed, eos_bias)


def full_log_probs(model, prefix, src_ids=SRC_IDS, banned=BANNED):
    """Log-probabilities [T + 1, V] of every position after the start token and `prefix`, without any cache, by way of the softmax."""
    with torch.no_grad():
        logits = model(torch.tensor([src_ids]), torch.tensor([[BOS, *prefix]]))[0].double()
    logits[:, list(banned)] = -math.inf
    return logits.softmax(-1).log()


def sequence_log_probs(model, ids, **options):
    log_probs = full_log_probs(model, ids[:-1], **options)
    return [float(log_probs[t, i]) for t, i in enumerate(ids)]


class StepRecorder:
    """Collects the last row of every decoder map of every step: one list of [layer] -> [rows, H, K] per kind."""

    def __init__(self):
        self.steps = {"decoder_self": [], "cross": []}

    def __call__(self, site, attn_weights):
        if site.kind != "encoder_self":
            if site.layer == 0:
                self.steps[site.kind].append({})
            self.steps[site.kind][-1][site.layer] = attn_weights[:, :, -1].clone()
