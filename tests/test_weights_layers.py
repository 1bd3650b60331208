"""Every layer that has parameters: its state_dict, converted and loaded, gives the translated layer the same output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed import skip_without

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

skip_without("torch", "mindspore", reason="the checkpoints are PyTorch's and MindSpore's")
ROOT = Path(__file__).resolve().parents[1]

# the layer, and its call with v (2, 4), s (2, 4, 6), im (2, 4, 5, 5), vol (2, 4, 3, 3, 3), seq (3, 2, 8) and numbers k
LAYERS = {
    "Linear": ("nn.Linear(4, 3)", "self.Linear(v)"),
    "Bilinear": ("nn.Bilinear(4, 4, 3)", "self.Bilinear(v, v)"),
    "Conv1d": ("nn.Conv1d(4, 6, 3, padding=1, groups=2)", "self.Conv1d(s)"),
    "Conv2d": ("nn.Conv2d(4, 6, 3, stride=2, bias=False)", "self.Conv2d(im)"),
    "Conv3d": ("nn.Conv3d(4, 6, 2)", "self.Conv3d(vol)"),
    "ConvTranspose1d": ("nn.ConvTranspose1d(4, 6, 3)", "self.ConvTranspose1d(s)"),
    "ConvTranspose2d": ("nn.ConvTranspose2d(4, 6, 3, stride=2)", "self.ConvTranspose2d(im)"),
    "ConvTranspose3d": ("nn.ConvTranspose3d(4, 6, 2)", "self.ConvTranspose3d(vol)"),
    "Embedding": ("nn.Embedding(9, 5)", "self.Embedding(k)"),
    "EmbeddingBag": ("nn.EmbeddingBag(9, 5)", "self.EmbeddingBag(k)"),
    "BatchNorm1d": ("nn.BatchNorm1d(4)", "self.BatchNorm1d(v)"),
    "BatchNorm2d": ("nn.BatchNorm2d(4)", "self.BatchNorm2d(im)"),
    "BatchNorm3d": ("nn.BatchNorm3d(4)", "self.BatchNorm3d(vol)"),
    "InstanceNorm1d": ("nn.InstanceNorm1d(4, affine=True)", "self.InstanceNorm1d(s)"),
    "InstanceNorm2d": ("nn.InstanceNorm2d(4, affine=True)", "self.InstanceNorm2d(im)"),
    "InstanceNorm3d": ("nn.InstanceNorm3d(4, affine=True)", "self.InstanceNorm3d(vol)"),
    "GroupNorm": ("nn.GroupNorm(2, 4)", "self.GroupNorm(im)"),
    "LayerNorm": ("nn.LayerNorm(6)", "self.LayerNorm(s)"),
    "RMSNorm": ("nn.RMSNorm(6)", "self.RMSNorm(s)"),
    "PReLU": ("nn.PReLU(4)", "self.PReLU(im)"),
    "RNN": ("nn.RNN(8, 5, 2)", "self.RNN(seq)[0]"),
    "LSTM": ("nn.LSTM(8, 5, bidirectional=True)", "self.LSTM(seq)[0]"),
    "GRU": ("nn.GRU(8, 5)", "self.GRU(seq)[0]"),
    "RNNCell": ("nn.RNNCell(4, 3)", "self.RNNCell(v)"),
    "LSTMCell": ("nn.LSTMCell(4, 3)", "self.LSTMCell(v)[0]"),
    "GRUCell": ("nn.GRUCell(4, 3)", "self.GRUCell(v)"),
    "MultiheadAttention": ("nn.MultiheadAttention(8, 2)", "self.MultiheadAttention(seq, seq, seq)[0]"),
    "TransformerEncoderLayer": ("nn.TransformerEncoderLayer(8, 2, 16)", "self.TransformerEncoderLayer(seq)"),
    "TransformerDecoderLayer": ("nn.TransformerDecoderLayer(8, 2, 16)", "self.TransformerDecoderLayer(seq, seq)"),
    "TransformerEncoder": ("nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)",
                           "self.TransformerEncoder(seq)"),
    "TransformerDecoder": ("nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2)",
                           "self.TransformerDecoder(seq, seq)"),
    "Transformer": ("nn.Transformer(8, 2, 1, 1, 16)", "self.Transformer(seq, seq)"),
}  # fmt: skip
ELSEWHERE = {"SyncBatchNorm": "MindSpore has no kernel of it on CPU"}

INPUTS = ("v", "s", "im", "vol", "seq", "k")
TORCH = """
import numpy as np, torch, net

torch.manual_seed(0)
model = net.Zoo().eval()
for parameter in model.parameters():
    parameter.data.normal_(0.0, 0.5)
for key, buffer in model.named_buffers():
    if "running" in key:
        buffer.data.uniform_(0.5, 1.5)
shapes = {"v": (2, 4), "s": (2, 4, 6), "im": (2, 4, 5, 5), "vol": (2, 4, 3, 3, 3), "seq": (3, 2, 8)}
given = {name: torch.randn(shape) for name, shape in shapes.items()}
given["k"] = torch.tensor([[1, 4, 2], [8, 0, 4]])
torch.save(model.state_dict(), "zoo.pth")
with torch.no_grad():
    outputs = model(**given)
np.savez("given.npz", **{name: value.numpy() for name, value in given.items()})
np.savez("torch.npz", *[out.numpy() for out in outputs])
"""
MINDSPORE = """
import mindspore as ms, numpy as np, net_ms as net

given = np.load("given.npz")
model = net.Zoo()
model.set_train(False)
print(ms.load_param_into_net(model, ms.load_checkpoint("zoo.ckpt"), strict_load=True))
outputs = model(*[ms.Tensor(given[name]) for name in ("v", "s", "im", "vol", "seq", "k")])
np.savez("mindspore.npz", *[out.asnumpy() for out in outputs])
"""


def program() -> str:
    """A module that holds every layer and returns what each of them gives."""
    made = "".join(f"        self.{name} = {layer}\n" for name, (layer, _) in LAYERS.items())
    outputs = "".join(f"            {call},\n" for _, call in LAYERS.values())
    head = "from torch import nn\n\n\nclass Zoo(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    body = f"\n    def forward(self, {', '.join(INPUTS)}):\n        return (\n{outputs}        )\n"
    return head + made + body


def python(folder: Path, *words: str) -> None:
    env = {"GLOG_v": "3", "OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[object, object]]:
    """By layer: what torch gives, and what the translation gives with the converted checkpoint."""
    import numpy as np

    folder = tmp_path_factory.mktemp("layers")
    (folder / "net.py").write_text(program())
    (folder / "run_torch.py").write_text(TORCH)
    (folder / "run_mindspore.py").write_text(MINDSPORE)
    python(folder, "run_torch.py")
    python(folder, "-m", "torch2ms", "convert", "net.py", "-o", "net_ms.py")
    python(folder, "-m", "torch2ms", "weights", "zoo.pth", "--like", "net.py:Zoo", "-o", "zoo.ckpt")
    python(folder, "run_mindspore.py")
    one, two = np.load(folder / "torch.npz"), np.load(folder / "mindspore.npz")
    return {name: (one[key], two[key]) for name, key in zip(LAYERS, one.files, strict=True)}


def test_every_layer_with_parameters_is_here() -> None:
    known = tomllib.loads((ROOT / "rules" / "params.toml").read_text())["layers"]
    assert sorted(known) == sorted([*LAYERS, *ELSEWHERE])


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_with_the_converted_weights(name: str, outputs: dict[str, tuple[object, object]]) -> None:
    import numpy as np

    np.testing.assert_allclose(outputs[name][1], outputs[name][0], rtol=1e-4, atol=1e-4)
