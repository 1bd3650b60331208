"""When two arrays count as equal."""

from __future__ import annotations

import numpy as np
import pytest

from torch2ms.verify.comparison.numbers import FLOAT32, judge, printed_numbers, same_printed
from torch2ms.verify.comparison.reference import is_rounding

ONES = np.ones(4, np.float32)


@pytest.mark.parametrize(
    "right, equal",
    [
        (ONES + 1e-5, True),
        (ONES + 1e-3, False),
        (ONES * np.nan, False),
        (np.ones(3), False),
        (np.array([1, 1, 1, np.inf]), False),
    ],
)
def test_single_precision(right, equal):
    assert judge(ONES, right, FLOAT32).equal == equal


def test_the_tolerance_grows_with_the_tensor_not_with_its_neighbours():
    assert judge(1e4 * ONES, 1e4 * ONES + 0.1, FLOAT32).equal
    assert not judge(1e-4 * ONES, 1.1e-4 * ONES, FLOAT32, scale=1e-4).equal


def test_a_wrong_update_does_not_hide_in_the_tolerance_of_the_weight():
    right, wrong = 1 - 1e-5 * np.ones(4), 1 - 1.2e-5 * np.ones(4)
    assert judge(right, wrong, FLOAT32).equal
    assert not judge(right, wrong, FLOAT32, moved=1e-5).equal
    assert judge(right, right + 5e-7, FLOAT32, moved=0.0).equal  # rounding of the weight itself


def test_infinities_and_nan_must_stand_in_the_same_places():
    array = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert judge(array, array, FLOAT32).equal and "NaN" in judge(array, array, FLOAT32).why
    assert not judge(array, array[[0, 2, 1, 3]], FLOAT32).equal


def test_printed_numbers():
    assert printed_numbers("epoch 1: loss 0.5e-3, nan\nno digits\nlayer2 x\n") == [["1", "0.5e-3", "nan"]]
    assert same_printed("0.1234", "0.1235") and not same_printed("0.1234", "0.1334")
    assert same_printed("nan", "nan") and not same_printed("3", "4")


def test_rounding_that_torch_has_too_is_no_difference_and_lost_digits_excuse_nothing():
    assert is_rounding(3e-4, 9e-4, ONES)  # torch has lost three digits more than usual, mindspore no more
    assert not is_rounding(3e-4, 3e-3, ONES)
    assert not is_rounding(1e-7, 1e-3, ONES)  # torch is exact, mindspore is not
    assert not is_rounding(1e-2, 1e-2, ONES)  # torch has lost its numbers
    assert not is_rounding(1e-4, np.nan, ONES)


def test_what_cancels_is_measured_by_what_comes_from_the_same_sums() -> None:
    small = np.full(3, 2e-5)
    assert not is_rounding(2.5e-5, 4.2e-5, small)
    assert is_rounding(2.5e-5, 4.2e-5, small, beside=300.0)
    assert not is_rounding(2.5e-5, 2e-4, small, beside=300.0)  # mindspore has lost far more than torch
    assert not is_rounding(2.5e-5, 4.2e-5, small, beside=3.0)  # more is lost than cancelling explains
