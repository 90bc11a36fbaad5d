"""Which token can reach which row of the model: masks and positions seen from outside."""

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

from model.hooks import AttentionRecorder, attention_hook
from model.transformer import Transformer
from tests.model.factories import PAD, SRC_IDS, SRC_MASK, TGT_IN_IDS, random, tiny_model


class TestWhoSeesWhom:
    def test_the_future_never_reaches_an_earlier_row(self):
        """Bit for bit: the same numbers, not nearly the same."""
        model = tiny_model()
        memory = model.encode(SRC_IDS, SRC_MASK)
        whole = model.decode(TGT_IN_IDS, memory, SRC_MASK)
        for t in range(1, TGT_IN_IDS.shape[1]):
            other = TGT_IN_IDS.clone()
            other[:, t:] = (other[:, t:] + 4) % 13
            changed = model.decode(other, memory, SRC_MASK)
            assert torch.equal(changed[:, :t], whole[:, :t])
            assert not torch.isclose(changed[:, t:], whole[:, t:]).all(dim=-1).any()

    def test_each_row_depends_on_every_token_of_its_past_and_on_itself(self):
        model = tiny_model(num_decoder_layers=1)
        memory, embedded = model.encode(SRC_IDS), []
        model.tgt_embedding.register_forward_hook(lambda module, args, out: embedded.append(out))
        states = model.decode(TGT_IN_IDS, memory)
        for t in range(6):
            (gradient,) = torch.autograd.grad(states[:, t].square().sum() + states[:, t].sum(), embedded, retain_graph=True)
            felt = gradient.abs().sum(-1)  # [B, T]
            assert (felt[:, : t + 1] > 0).all() and (felt[:, t + 1 :] == 0).all()

    def test_cross_attention_is_not_causal(self):
        """The last source token reaches every target row, the first included."""
        model = tiny_model()
        last = SRC_IDS[:1].clone()
        last[0, -1] = 11
        before, after = (model(ids, TGT_IN_IDS[:1]) for ids in (SRC_IDS[:1], last))
        assert ((before - after).abs().amax(-1) > 1e-3).all()

    def test_every_row_of_memory_reaches_every_target_row(self):
        """The encoder has mixed the last token into all of memory, so one row of memory at a time says more."""
        model = tiny_model()
        memory = model.encode(SRC_IDS[:1])
        before = model.decode(TGT_IN_IDS[:1], memory)
        for s in range(5):
            other = memory.clone()
            other[:, s] += random(16)
            assert ((model.decode(TGT_IN_IDS[:1], other) - before).abs().amax(-1) > 1e-4).all()

    def test_cross_attention_gives_later_source_tokens_weight_in_the_first_row(self):
        model = tiny_model()
        with attention_hook(AttentionRecorder()) as recorder:
            model(SRC_IDS[:1], TGT_IN_IDS[:1])
        assert (recorder.stack("cross") > 0).all()
        assert (recorder.stack("encoder_self") > 0).all()

    def test_every_source_row_sees_every_source_token(self):
        model = tiny_model()
        for s in range(5):
            other = SRC_IDS[:1].clone()
            other[0, s] = 11
            change = (model.encode(SRC_IDS[:1]) - model.encode(other)).abs().amax(-1)
            assert (change > 1e-4).all()

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_what_stands_in_source_padding_never_matters(self, norm):
        model = tiny_model(norm=norm)
        other = torch.where(SRC_MASK, SRC_IDS, 12 - SRC_IDS)
        assert not torch.equal(other, SRC_IDS)
        memory, changed = model.encode(SRC_IDS, SRC_MASK), model.encode(other, SRC_MASK)
        assert torch.equal(memory[SRC_MASK], changed[SRC_MASK])
        assert torch.equal(model.decode(TGT_IN_IDS, memory, SRC_MASK), model.decode(TGT_IN_IDS, changed, SRC_MASK))

    def test_padding_a_sentence_changes_nothing(self):
        model = tiny_model()
        alone = model(SRC_IDS[1:2, :3], TGT_IN_IDS[1:2])
        torch.testing.assert_close(model(SRC_IDS, TGT_IN_IDS)[1:2], alone, atol=1e-5, rtol=0)

    def test_padded_source_keys_have_no_weight_at_all(self):
        model = tiny_model()
        with attention_hook(AttentionRecorder()) as recorder:
            model(SRC_IDS, TGT_IN_IDS)
        for kind in ("encoder_self", "cross"):
            weights = recorder.stack(kind)  # [L, B, H, Q, S]
            pads = ~SRC_MASK[None, :, None, None, :].expand_as(weights)
            assert (weights[pads] == 0).all() and (weights[~pads] > 0).all()

    def test_padding_of_the_target_is_hidden(self):
        """Rows of real tokens are the same whether pads follow or not; the rows of pads are finite and may be thrown away."""
        model = tiny_model()
        padded = torch.cat((TGT_IN_IDS[:1], torch.full((1, 3), PAD)), dim=1)
        logits = model(SRC_IDS[:1], padded)
        torch.testing.assert_close(logits[:, :6], model(SRC_IDS[:1], TGT_IN_IDS[:1]), atol=1e-5, rtol=0)
        assert logits.isfinite().all()

    def test_a_batch_is_its_sentences(self):
        model = tiny_model()
        batch = model(SRC_IDS, TGT_IN_IDS)
        for row in range(3):
            alone = model(SRC_IDS[row : row + 1], TGT_IN_IDS[row : row + 1])
            torch.testing.assert_close(batch[row : row + 1], alone, atol=1e-5, rtol=0)

    def test_a_source_of_padding_only_is_refused(self):
        with pytest.raises(ValueError, match="all padding"):
            tiny_model()(torch.zeros_like(SRC_IDS), TGT_IN_IDS)

    @pytest.mark.parametrize("hooked", [False, True])
    def test_a_mask_that_hides_a_whole_sentence_is_refused(self, hooked):
        model, mask = tiny_model(), SRC_MASK & torch.tensor([[True], [False], [True]])
        with attention_hook(lambda site, weights: None) if hooked else nullcontext(), pytest.raises(ValueError, match="all padding"):
            model.encode(SRC_IDS, mask)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
    def test_a_mask_must_be_bool(self, dtype):
        model = tiny_model()
        memory = model.encode(SRC_IDS)
        for run in (lambda mask: model.encode(SRC_IDS, mask), lambda mask: model.decode(TGT_IN_IDS, memory, mask)):
            with pytest.raises((TypeError, ValueError), match="bool"):
                run(SRC_MASK.to(dtype))


class TestOrder:
    """Attention by itself doesn't know the order of the words; the positions bring it in."""

    ORDER = torch.tensor([2, 0, 4, 1, 3])
    IDS = torch.tensor([[4, 9, 8, 7, 2]])

    def shuffled(self, model: Transformer) -> tuple[Tensor, Tensor]:
        return model.encode(self.IDS)[:, self.ORDER], model.encode(self.IDS[:, self.ORDER])

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_without_positions_the_rows_only_permute(self, monkeypatch, norm):
        model = tiny_model(norm=norm)
        monkeypatch.setattr(model, "positions", torch.zeros_like(model.positions))
        torch.testing.assert_close(*self.shuffled(model), atol=1e-5, rtol=0)

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_with_positions_they_change(self, norm):
        permuted, shuffled = self.shuffled(tiny_model(norm=norm))
        assert ((permuted - shuffled).abs().amax(-1) > 0.01).all()

    def test_without_positions_a_bag_of_words_is_decoded(self, monkeypatch):
        model = tiny_model()
        with_positions = [model(ids, TGT_IN_IDS[:1]) for ids in (self.IDS, self.IDS[:, self.ORDER])]
        monkeypatch.setattr(model, "positions", torch.zeros_like(model.positions))
        without = [model(ids, TGT_IN_IDS[:1]) for ids in (self.IDS, self.IDS[:, self.ORDER])]
        torch.testing.assert_close(*without, atol=1e-4, rtol=0)
        assert not torch.allclose(*with_positions, atol=1e-2)
