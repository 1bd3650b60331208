"""The default element type: where a program sets it, what is made after it says its type."""

from __future__ import annotations

from torch2ms import Tier, convert_source

HEAD = "import torch\nfrom torch import nn\n"


def test_what_is_made_after_it_has_the_type() -> None:
    text = convert_source(
        HEAD + "torch.set_default_dtype(torch.float64)\nx = torch.tensor([1.5])\nn = torch.arange(3)\n"
        "net = nn.Linear(1, 2)\nkind = torch.get_default_dtype()\n"
    ).text
    assert "x = ms.tensor([1.5], dtype=ms.float64)" in text and "n = ops.arange(3)" in text
    assert "net = nn.Dense(1, 2, dtype=ms.float64)" in text and "kind = ms.float64" in text


def test_functions_run_after_the_only_setting() -> None:
    text = convert_source(
        HEAD + "def noise(n):\n    return torch.randn(n)\n\n\ntorch.set_default_tensor_type('torch.DoubleTensor')\n"
        "print(noise(3))\n"
    ).text
    assert "ops.randn(n, dtype=ms.float64)" in text and "set_default" not in text


def test_it_may_change() -> None:
    text = convert_source(
        HEAD + "torch.set_default_dtype(torch.double)\nx = torch.zeros(2)\ntorch.set_default_dtype(torch.float32)\n"
        "y = torch.zeros(2)\n"
    ).text
    assert "x = ops.zeros(2, dtype=ms.float64)" in text and "y = ops.zeros(2)" in text


def test_it_is_refused_where_a_type_is_not_seen() -> None:
    for use in ("def f(data):\n    return torch.tensor(data)", "x = torch.Tensor(2)", "x = torch.zeros(*[2])"):
        result = convert_source(HEAD + "torch.set_default_dtype(torch.float64)\n" + use + "\n")
        assert any(f.tier is Tier.REFUSED and "set_default_dtype" in f.what for f in result.findings), use
