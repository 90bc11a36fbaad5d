import math

import numpy as np
import pytest
import torch

from model.positional import is_sine, sinusoidal_table, wavelengths
from tests.model.factories import tiny_model

LAYOUTS = ("interleaved", "halves")


def formula(num_positions: int, d_model: int) -> np.ndarray:
    """Section 3.5 of the paper, term by term, in Python's own float64."""
    table = np.empty((num_positions, d_model))
    for pos in range(num_positions):
        for i in range(d_model // 2):
            angle = pos / 10000 ** (2 * i / d_model)
            table[pos, 2 * i], table[pos, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table


@pytest.mark.parametrize(("num_positions", "d_model"), [(1, 2), (20, 16), (300, 64), (40, 512)])
def test_table_is_the_papers_formula(num_positions, d_model):
    table = sinusoidal_table(num_positions, d_model)
    assert table.dtype == torch.float32 and table.shape == (num_positions, d_model)
    np.testing.assert_allclose(table.numpy(), formula(num_positions, d_model), atol=1e-7, rtol=0)


def test_far_positions_keep_float_precision():
    """Angles taken in float32 would be off by 1e-4 here."""
    np.testing.assert_allclose(sinusoidal_table(5000, 8)[4990:].numpy(), formula(5000, 8)[4990:], atol=1e-7, rtol=0)


def test_both_layouts_hold_the_same_numbers():
    interleaved, halves = (sinusoidal_table(30, 16, layout) for layout in LAYOUTS)
    assert torch.equal(halves[:, :8], interleaved[:, 0::2])  # sines
    assert torch.equal(halves[:, 8:], interleaved[:, 1::2])  # cosines
    assert not torch.equal(halves, interleaved)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_position_zero_is_sine_0_and_cosine_1(layout):
    row = sinusoidal_table(1, 16, layout)[0]
    assert torch.equal(row, (~is_sine(16, layout)).float())


def test_which_dimensions_are_sines():
    assert is_sine(6).tolist() == [True, False, True, False, True, False]
    assert is_sine(6, "halves").tolist() == [True, True, True, False, False, False]


@pytest.mark.parametrize("args", [(8, "spiral"), (7, "interleaved"), (7, "halves")])
def test_which_dimensions_are_sines_is_asked_for_real_layouts_only(args):
    with pytest.raises(ValueError):
        is_sine(*args)


@pytest.mark.parametrize("d_model", [0, 1, 7, -2])
@pytest.mark.parametrize("function", [wavelengths, lambda d_model: sinusoidal_table(3, d_model)])
def test_odd_d_model_is_refused(function, d_model):
    with pytest.raises(ValueError, match=f"d_model must be even.*{d_model}"):
        function(d_model)


@pytest.mark.parametrize("function", [wavelengths, lambda d_model, layout: sinusoidal_table(3, d_model, layout)])
def test_unknown_layout_is_refused(function):
    with pytest.raises(ValueError, match="'interleaved' or 'halves', not 'spiral'"):
        function(8, "spiral")


def test_negative_length_is_refused_and_zero_is_empty():
    with pytest.raises(ValueError, match="-1"):
        sinusoidal_table(-1, 8)
    assert sinusoidal_table(0, 8).shape == (0, 8)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_dot_product_depends_on_distance_only_and_has_no_direction(layout):
    table = sinusoidal_table(120, 64, layout).double()
    products = table @ table.T
    for k in range(60):
        along = torch.diagonal(products, k)
        assert along.max() - along.min() < 1e-5  # the same at every p
        torch.testing.assert_close(along, torch.diagonal(products, -k), atol=1e-9, rtol=0)  # the same for -k
    expected = [sum(math.cos(k / 10000 ** (2 * i / 64)) for i in range(32)) for k in range(60)]
    np.testing.assert_allclose(products[0, :60].numpy(), expected, atol=1e-5)


def test_dot_product_is_not_monotone_in_the_distance():
    """For d_model 512 the first rise is at k = 44."""
    table = sinusoidal_table(60, 512).double()
    steps = (table @ table[0]).diff()
    assert int((steps > 0).nonzero()[0]) + 1 == 44


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 5, 37])
def test_a_shift_by_k_is_one_rotation_of_each_pair(layout, k):
    """PE(p + k) = M_k PE(p), M_k block-diagonal and the same for every p."""
    d_model = 32
    table = sinusoidal_table(150, d_model, layout).double()
    rate = 2 * math.pi / wavelengths(d_model, layout)
    sines, cosines = is_sine(d_model, layout).nonzero()[:, 0], (~is_sine(d_model, layout)).nonzero()[:, 0]
    shift = torch.zeros(d_model, d_model, dtype=torch.float64)
    for s, c in zip(sines, cosines, strict=True):
        assert rate[s] == rate[c]
        cos, sin = math.cos(k * rate[s]), math.sin(k * rate[s])
        shift[s, s], shift[s, c], shift[c, s], shift[c, c] = cos, sin, -sin, cos
    torch.testing.assert_close(table[:-k] @ shift.T, table[k:], atol=1e-6, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_wavelengths_are_geometric_from_2_pi_to_near_10000_times_that(layout):
    waves = wavelengths(512, layout)
    assert waves.dtype == torch.float64 and waves.shape == (512,)
    assert waves[0].item() == pytest.approx(2 * math.pi, rel=1e-12)
    assert waves[-1].item() == pytest.approx(2 * math.pi * 10000 ** (510 / 512), rel=1e-12)
    assert 0.96 < waves.max().item() / (2 * math.pi * 10000) < 1
    sines = waves[is_sine(512, layout)]
    ratios = sines[1:] / sines[:-1]
    torch.testing.assert_close(ratios, ratios[:1].expand_as(ratios), atol=1e-12, rtol=0)
    assert torch.equal(sines, waves[~is_sine(512, layout)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_wavelengths_are_those_of_the_table(layout):
    """One position further turns a dimension by 2 pi / wavelength."""
    angle = 2 * math.pi / wavelengths(64, layout)
    expected = torch.where(is_sine(64, layout), (3 * angle).sin(), (3 * angle).cos())
    torch.testing.assert_close(sinusoidal_table(4, 64, layout)[3].double(), expected, atol=1e-7, rtol=0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_model_holds_the_table_as_a_constant(layout):
    model = tiny_model(position_layout=layout)
    assert torch.equal(model.positions, sinusoidal_table(20, 16, layout))
    assert "positions" not in model.state_dict()
    assert "positions" in dict(model.named_buffers())
    assert not model.positions.requires_grad


def test_halves_is_the_layout_of_marian():
    marian = pytest.importorskip("transformers.models.marian.modeling_marian")
    theirs = marian.MarianSinusoidalPositionalEmbedding(40, 64)
    weight = theirs.create_weight()
    torch.testing.assert_close(sinusoidal_table(40, 64, "halves"), weight, atol=1e-7, rtol=0)
