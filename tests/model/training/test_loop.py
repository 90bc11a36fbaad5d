"""The training loop: that it learns, that a stopped run goes on exactly, and what it leaves in its folder."""

from __future__ import annotations

import json
import math
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece as spm
import torch

from model.training import loop
from model.training.batches import Batch, EpochBuilder, Sampling
from model.training.corpus import Pair
from model.training.loop import Trainer, autocast_dtype, average_snapshots
from model.training.loss import learning_rate
from tests.model.training import samples


def same_weights(one: Trainer, other: Trainer) -> bool:
    state, other_state = one.model.state_dict(), other.model.state_dict()
    return all(torch.equal(state[key], other_state[key]) for key in state)


def at_step(trainer: Trainer, step: int, action: Callable[[], None]) -> None:
    """Calls `action` in the midst of that update."""
    update = trainer.update

    def wrapped(batch: Batch) -> tuple[float, int]:
        if trainer.step + 1 == step:
            action()
        return update(batch)

    trainer.update = wrapped


def test_it_learns_to_copy(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    """Random characters in random order: only who looks at the source can know the next. Those of the validation were never seen."""
    rng, characters = random.Random(0), "我医生看见了卖找到一只狗"
    texts = dict.fromkeys("".join(rng.choices(characters, k=5)) for _ in range(1200))
    copies = [Pair("cmn", text, text) for text in texts]
    trainer = samples.make_trainer(
        vocabulary,
        tmp_path,
        train=copies[60:],
        valid=copies[:60],
        sampling=Sampling({}, augment=False),
        config=samples.tiny_config(vocabulary.get_piece_size(), dropout=0.0, d_ff=64),
        peak_rate=1e-2,
        warmup_steps=50,
        batch_tokens=800,
        smoothing=0.0,
    )
    assert trainer.validate() > 5
    trainer.train(180)
    # Blind to the source, a character costs log 12 at the least, and the space mark and the end nothing.
    blind = 60 * 5 * math.log(len(characters)) / sum(batch.num_tokens for batch in trainer.valid)
    assert trainer.validate() < 0.1 * blind


@pytest.mark.parametrize(("stop", "optimizer"), [(1, "adam"), (5, "adam"), (5, "muon"), (16, "adam"), (17, "adam")])
def test_a_resumed_run_equals_one_in_one_go(stop: int, optimizer: str, vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    """Bitwise, with dropout, augmentation and sampled segmentation on, from within an epoch, its last batch and its very end."""
    settings = {"batch_tokens": 1500, "snapshot_every": 4, "optimizer": optimizer}
    whole = samples.make_trainer(vocabulary, tmp_path / "whole", **settings)
    assert len(whole.epochs.build(0, 0)) == 16
    whole.train(20)
    assert whole.epoch == 1

    first = samples.make_trainer(vocabulary, tmp_path / "parts", **settings)
    first.train(stop)
    torch.rand(stop)
    second = samples.make_trainer(vocabulary, tmp_path / "parts", **settings)
    assert not same_weights(first, second)
    assert second.resume()
    assert same_weights(first, second)
    second.train(20)
    assert same_weights(whole, second)
    assert (second.step, second.epoch, second.next_batch, second.tokens) == (20, 1, 4, whole.tokens)
    for wholes, seconds in zip(whole.optimizers, second.optimizers, strict=True):
        for one, other in zip(wholes.state.values(), seconds.state.values(), strict=True):
            assert all(torch.equal(one[key], other[key]) for key in one)


def test_nothing_to_resume(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    assert not samples.make_trainer(vocabulary, tmp_path).resume()


def test_another_seed_is_another_run(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    one, same, other = (samples.make_trainer(vocabulary, tmp_path, seed=seed) for seed in (0, 0, 1))
    assert same_weights(one, same)
    assert not same_weights(one, other)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_returns(number: signal.Signals, vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    before = signal.getsignal(number)
    trainer = samples.make_trainer(vocabulary, tmp_path / "stopped")
    at_step(trainer, 3, lambda: signal.raise_signal(number))
    trainer.train(9)
    assert trainer.step == 3
    assert signal.getsignal(number) is before

    # the request ends with the call: the same object may go on
    trainer.train(4)
    assert trainer.step == 4


def test_a_run_stopped_by_a_signal_goes_on_exactly(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    stopped = samples.make_trainer(vocabulary, tmp_path / "stopped")
    at_step(stopped, 3, lambda: signal.raise_signal(signal.SIGTERM))
    stopped.train(9)
    resumed = samples.make_trainer(vocabulary, tmp_path / "stopped")
    assert resumed.resume()
    assert resumed.step == 3
    resumed.train(5)
    whole = samples.make_trainer(vocabulary, tmp_path / "whole")
    whole.train(5)
    assert same_weights(whole, resumed)


def test_handlers_are_put_back_after_a_failure(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    trainer = samples.make_trainer(vocabulary, tmp_path)

    def fail() -> None:
        raise RuntimeError("disk on fire")

    at_step(trainer, 2, fail)
    with pytest.raises(RuntimeError, match="disk on fire"):
        trainer.train(4)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("which", ["state", "snapshot"])
def test_a_write_cut_short_leaves_the_old_file(
    which: str, vocabulary: spm.SentencePieceProcessor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = samples.make_trainer(vocabulary, tmp_path, snapshot_every=2)
    trainer.train(2)
    old = average_snapshots(tmp_path, 5)[0]

    def cut_short(value: object, path: Path) -> None:
        Path(path).write_bytes(b"half of a fi")
        raise OSError("no space left on device")

    trainer.update(loop.collate(trainer.epochs.build(0, 0)[0]))
    monkeypatch.setattr(torch, "save", cut_short)
    with pytest.raises(OSError, match="no space"):
        trainer.save() if which == "state" else trainer.snapshot()
    monkeypatch.undo()
    fresh = samples.make_trainer(vocabulary, tmp_path)
    assert fresh.resume()
    assert fresh.step == 2
    new = average_snapshots(tmp_path, 5)[0]
    assert all(torch.equal(old[key], new[key]) for key in old)


def test_the_newest_snapshots_are_kept_with_a_line_each_in_the_log(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    trainer = samples.make_trainer(vocabulary, tmp_path, snapshot_every=2, keep_snapshots=3)
    trainer.train(11)
    names = sorted(path.name for path in (tmp_path / "snapshots").iterdir())
    assert names == ["0000008.pt", "0000010.pt", "0000011.pt"]
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == [2, 4, 6, 8, 10, 11]
    assert log[-1] == {"step": 11, "epoch": 0, "tokens": trainer.tokens, "seconds": log[-1]["seconds"], "valid_loss": log[-1]["valid_loss"]}
    assert log[-1]["valid_loss"] == pytest.approx(trainer.validate(), abs=1e-4)
    last = torch.load(tmp_path / "snapshots" / names[-1], weights_only=True)
    assert all(torch.equal(last[key], value) for key, value in trainer.model.state_dict().items())
    assert {path.name for path in tmp_path.iterdir()} == {"state.pt", "snapshots", "log.jsonl"}


def test_the_average_is_the_arithmetic_mean_of_the_last(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    trainer = samples.make_trainer(vocabulary, tmp_path, snapshot_every=2)
    trainer.train(6)
    for count, names in ((2, ["0000004", "0000006"]), (9, ["0000002", "0000004", "0000006"])):
        mean, used = average_snapshots(tmp_path, count)
        assert used == names
        states = [torch.load(tmp_path / "snapshots" / f"{name}.pt", weights_only=True) for name in names]
        assert set(mean) == set(states[0])
        for key, value in mean.items():
            expected = sum(state[key].double() for state in states) / len(states)
            torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=1e-7)


def test_no_snapshots_no_average(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="train first"):
        average_snapshots(tmp_path, 5)


def test_an_update_is_adam_on_the_mean_loss_with_the_norm_clipped(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    """Against a loop of PyTorch's own parts."""
    config = samples.tiny_config(vocabulary.get_piece_size(), dropout=0.0)
    options = {"config": config, "clip_norm": 0.2, "warmup_steps": 2, "peak_rate": 0.01, "last_step": 4, "cooldown_steps": 2}
    trainer, reference = (samples.make_trainer(vocabulary, tmp_path, **options) for _ in range(2))
    model = reference.model.train()
    trainer.model.train()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step, items in enumerate(trainer.epochs.build(0, 0)[:4], 1):
        batch = loop.collate(items)
        loss, tokens = trainer.update(batch)
        optimizer.param_groups[0]["lr"] = learning_rate(step, 0.01, 2, 4, 2)
        optimizer.zero_grad()
        labels = batch.tgt_ids[:, 1:].flatten()
        logits = model(batch.src_ids, batch.tgt_ids[:, :-1]).flatten(0, 1)
        mean = torch.nn.functional.cross_entropy(logits, labels, ignore_index=0, label_smoothing=0.1)
        mean.backward()
        assert torch.nn.utils.clip_grad_norm_(model.parameters(), 0.2) > 0.2
        optimizer.step()
        assert (tokens, loss / tokens) == (int((labels != 0).sum()), pytest.approx(mean.item(), rel=1e-5))
        for (name, ours), theirs in zip(trainer.model.named_parameters(), model.parameters(), strict=True):
            # Softmax does not feel a bias of the keys: its gradient is rounding, of which Adam makes full steps.
            if not name.endswith("k_proj.bias"):
                torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_consistency_measures_two_passes_of_each_pair(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    """Each pair stands twice in the batch, with a dropout of its own, and what is drawn together are its same tokens. Without dropout the
    two are one, and an update is that of the batch alone."""
    config = samples.tiny_config(vocabulary.get_piece_size(), dropout=0.3)
    trainer = samples.make_trainer(vocabulary, tmp_path, config=config)
    batch = loop.collate(trainer.epochs.build(0, 0)[0])
    assert len({len(row[row != 0]) for row in batch.tgt_ids}) > 1  # padding is in the batch
    model = trainer.model.train()
    torch.manual_seed(3)
    loss = loop.batch_loss(model, batch.twice(), 0.0, torch.float32, consistency=2.0)
    torch.manual_seed(3)
    log_probs = model(batch.src_ids.repeat(2, 1), batch.tgt_ids[:, :-1].repeat(2, 1)).log_softmax(-1)
    labels = batch.tgt_ids[:, 1:]
    first, second = (half[labels != 0] for half in log_probs.split(len(labels)))
    apart = ((first.exp() - second.exp()) * (first - second)).sum() / 2
    plain = -sum(half.gather(1, labels[labels != 0, None]).sum() for half in (first, second))
    assert apart > 1
    assert loss.item() == pytest.approx((plain + 2 * apart).item(), rel=1e-4)

    still = samples.tiny_config(vocabulary.get_piece_size(), dropout=0.0)
    alone, twice = (samples.make_trainer(vocabulary, tmp_path, config=still, consistency=weight) for weight in (0.0, 5.0))
    for expected, got in zip(alone.update(batch), twice.update(batch), strict=True):
        assert got == pytest.approx(2 * expected, rel=1e-5)
    for (name, p), q in zip(alone.model.named_parameters(), twice.model.parameters(), strict=True):
        if not name.endswith("k_proj.bias"):  # see above
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


def test_muon_moves_the_matrices_of_the_layers_and_adam_the_rest(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    """With a rate of zero for one of the two, only the weights of the other move; a step of Muon has singular values of one kind."""
    for still, moving in (("peak_rate", "muon_rate"), ("muon_rate", "peak_rate")):
        rates = {still: 0.0, moving: 0.01}
        trainer = samples.make_trainer(vocabulary, tmp_path, optimizer="muon", warmup_steps=1, cooldown_steps=0, **rates)
        before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
        trainer.update(loop.collate(trainer.epochs.build(0, 0)[0]))
        moved = {name for name, p in trainer.model.named_parameters() if not torch.equal(p, before[name])}
        matrices = {name for name in before if name.startswith(("encoder.", "decoder.")) and name.endswith("weight") and "norm" not in name}
        assert moved == (matrices if moving == "muon_rate" else set(before) - matrices)
        if moving == "muon_rate":
            name = "encoder.0.feed_forward.linear1.weight"
            step = trainer.model.get_parameter(name) - before[name] * (1 - 0.01 * 0.1)
            rms = step.detach().square().mean().sqrt()
            assert rms == pytest.approx(0.01 * 0.2, rel=0.25)


def test_an_unknown_optimizer_is_named(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sgd"):
        samples.make_trainer(vocabulary, tmp_path, optimizer="sgd")


def test_validation_is_the_plain_cross_entropy(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    """Without smoothing and dropout, and without touching the random state or the model's mode."""
    trainer = samples.make_trainer(vocabulary, tmp_path, batch_tokens=200)
    assert len(trainer.valid) > 1
    trainer.model.train()
    state = torch.get_rng_state()
    value = trainer.validate()
    assert torch.equal(torch.get_rng_state(), state)
    assert trainer.model.training
    trainer.model.eval()
    total = tokens = 0
    for pair in samples.pairs()[::20]:
        ((src, tgt),) = loop.encode_pairs(vocabulary, [pair])
        logits = trainer.model(torch.tensor([src]), torch.tensor([tgt[:-1]]))[0]
        total += torch.nn.functional.cross_entropy(logits, torch.tensor(tgt[1:]), reduction="sum").item()
        tokens += len(tgt) - 1
    assert value == pytest.approx(total / tokens, rel=1e-5)


def test_bf16_trains_too(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    exact, rounded = (samples.make_trainer(vocabulary, tmp_path, precision=word) for word in ("fp32", "bf16"))
    batch = loop.collate(exact.epochs.build(0, 0)[0])
    (loss, tokens), (loss_2, tokens_2) = exact.update(batch), rounded.update(batch)
    assert tokens == tokens_2
    assert loss_2 == pytest.approx(loss, rel=0.02)
    assert {p.dtype for p in rounded.model.parameters()} == {torch.float32}


def test_an_epoch_without_batches_is_an_error(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    """Not an endless search for one."""
    trainer = samples.make_trainer(vocabulary, tmp_path, train=[])
    with pytest.raises(ValueError, match="0 batches for 1 processes"):
        trainer.train(1)


def test_precision_words() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert autocast_dtype("fp32", cuda) == torch.float32
    assert autocast_dtype("bf16", cpu) == torch.bfloat16
    assert autocast_dtype("auto", cuda) == torch.bfloat16
    assert autocast_dtype("auto", cpu) in (torch.bfloat16, torch.float32)
    with pytest.raises(ValueError, match="auto, fp32 or bf16"):
        autocast_dtype("fp16", cpu)


def test_a_run_describes_itself(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    trainer = samples.make_trainer(vocabulary, tmp_path, seed=7)
    facts = json.loads(json.dumps(trainer.describe()))
    assert facts["config"]["d_model"] == 16
    assert facts["settings"]["seed"] == 7
    assert facts["sampling"] == {"copies": {"cmn": 2}, "augment": True, "source_alpha": 0.3}
    assert isinstance(trainer.epochs, EpochBuilder)
