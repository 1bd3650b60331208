"""Layers start from torch's default values, also where their class had to be written out."""

from __future__ import annotations

import pytest

from tests.test_weights_layers import LAYERS
from torch2ms import convert_source
from torch2ms.verify import Case, Report, cli_table, verify_many

VARIANTS = {
    "BagOfFew": ("nn.EmbeddingBag(9, 5, mode='sum', padding_idx=0)", "self.BagOfFew(k)"),
    "Grown": ("nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1)", "self.Grown(im)"),
    "Dilated": ("nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, dilation=2)", "self.Dilated(im)"),
    "Mirrored": ("nn.Conv2d(4, 6, 3, padding=1, padding_mode='reflect')", "self.Mirrored(im)"),
    "Padded": ("nn.Embedding(9, 5, padding_idx=0)", "self.Padded(k)"),
    "Renormed": ("nn.Embedding(9, 5, max_norm=1.0)", "self.Renormed(k)"),
    "Plain": ("nn.BatchNorm2d(4, affine=False)", "self.Plain(im)"),
    "Cumulative": ("nn.BatchNorm2d(4, momentum=None)", "self.Cumulative(im)"),
    "Tracked": ("nn.InstanceNorm2d(4, affine=True, track_running_stats=True)", "self.Tracked(im)"),
    "NoBias": ("nn.LayerNorm(6, bias=False)", "self.NoBias(s)"),
    "Weighted": ("nn.utils.weight_norm(nn.Linear(4, 3))", "self.Weighted(v)"),
    "Spectral": ("nn.utils.spectral_norm(nn.Linear(4, 3))", "self.Spectral(v)"),
    "Keyed": ("nn.MultiheadAttention(8, 2, bias=False, add_bias_kv=True)", "self.Keyed(seq, seq, seq)[0]"),
    "NormFirst": ("nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, batch_first=True)", "self.NormFirst(seq)"),
    "Stacked": ("nn.GRU(8, 5, 2, batch_first=True, bidirectional=True, bias=False)", "self.Stacked(seq)[0]"),
}
PROGRAM = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
{made}

    def forward(self, v, s, im, vol, seq, k):
        return [{called}]


def far(out):
    return (out * torch.linspace(-1, 1, out.numel()).reshape(out.shape)).mean() + (out ** 2).mean()


torch.manual_seed(3)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for step in range(3):
    v, s, im = torch.randn(2, 4), torch.randn(2, 4, 6), torch.randn(2, 4, 5, 5)
    vol, seq = torch.randn(2, 4, 3, 3, 3), torch.randn(3, 2, 8)
    k = torch.tensor([[1, 4, 2], [8, 0, 4]])
    optimizer.zero_grad()
    loss = sum(far(out) for out in net(v, s, im, vol, seq, k))
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
RARE = ("Bilinear", "ConvTranspose1d", "EmbeddingBag", "InstanceNorm2d", "RMSNorm", "PReLU", "RNNCell", "GRUCell")
CHOSEN = {name: LAYERS[name] for name in RARE} | VARIANTS


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One program for all of them: their outputs train together."""
    made = "\n".join(f"        self.{name} = {text}" for name, (text, _) in CHOSEN.items())
    source = PROGRAM.format(made=made, called=", ".join(call for _, call in CHOSEN.values()))
    paths = [tmp_path_factory.mktemp("layers") / name for name in ("original.py", "translated.py")]
    for path, text in zip(paths, (source, convert_source(source).text), strict=True):
        path.write_text(text, encoding="utf-8")
    return verify_many([Case(*paths, explain=False)])[0]


def test_every_layer_starts_like_torch(report: Report) -> None:
    assert report.agrees, cli_table(report)


def test_a_layer_without_weights_has_its_buffers_compared(report: Report) -> None:
    assert not [note for note in report.notes if "(running_mean" in note or "no torch layer" in note]


@pytest.mark.parametrize("layer", sorted(CHOSEN.keys() - {"Plain"}))  # which has buffers alone
def test_gradients_of_every_layer_were_compared(layer: str, report: Report) -> None:
    assert any(layer in name.split(".") for name in report.parameters), list(report.parameters)
