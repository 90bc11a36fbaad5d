import pytest
import torch

from model.masks import causal_mask, padding_mask


def test_padding_mask_is_true_for_real_tokens():
    mask = padding_mask(torch.tensor([[4, 5, 2], [4, 2, 0], [0, 0, 2]]), pad_id=0)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[True, True, True], [True, True, False], [False, False, True]]


def test_padding_is_whatever_id_the_model_says():
    assert padding_mask(torch.tensor([[0, 7, 9]]), pad_id=7).tolist() == [[True, False, True]]


def test_a_sentence_of_padding_only_is_refused():
    with pytest.raises(ValueError, match="all padding"):
        padding_mask(torch.tensor([[4, 2], [0, 0]]), pad_id=0)


def test_a_sentence_without_tokens_is_refused():
    with pytest.raises(ValueError, match="all padding"):
        padding_mask(torch.zeros(1, 0, dtype=torch.int64), pad_id=0)


@pytest.mark.parametrize("past_len", [0, 1, 4])
@pytest.mark.parametrize("tgt_len", [1, 2, 5])
def test_causal_mask_lets_a_query_see_itself_and_its_past(tgt_len, past_len):
    mask = causal_mask(tgt_len, past_len)
    assert mask.dtype == torch.bool and mask.shape == (tgt_len, past_len + tgt_len)
    for row in range(tgt_len):
        for key in range(past_len + tgt_len):
            assert mask[row, key].item() == (key <= past_len + row)


def test_causal_mask_of_a_continuation_is_the_bottom_of_the_whole_one():
    assert torch.equal(causal_mask(2, past_len=3), causal_mask(5)[3:])


def test_masks_are_made_where_they_are_needed():
    assert causal_mask(3, device="meta").device.type == "meta"
    assert causal_mask(3).device.type == "cpu"
