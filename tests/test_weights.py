"""`torch2ms weights`: checkpoints of layers, a ResNet and a Transformer give the translated models the same outputs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed import skip_without
from torch2ms.weights.model import Like, LikeError
from torch2ms.weights.names import Place, place_of

skip_without("torch", "mindspore", reason="the checkpoints are PyTorch's and MindSpore's")
ROOT = Path(__file__).resolve().parents[1]
NAMES = ("Layers", "ResNet", "Former")

PROGRAM = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.bn1(self.conv1(x)) + x)


class ResNet(nn.Module):
    def __init__(self, c=4, num_classes=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU())
        self.layer1 = nn.Sequential(Block(c), Block(c))
        self.fc = nn.Linear(c, num_classes)

    def forward(self, x):
        x = self.layer1(self.stem(x))
        return self.fc(x.mean((2, 3)))


class Former(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.pos = nn.Parameter(torch.zeros(1, 5, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, t):
        h = self.encoder(self.embed(t) + self.pos)
        return self.head(self.norm(h))


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3)
        self.act = nn.PReLU()
        self.norm = nn.GroupNorm(2, 4)
        self.lstm = nn.LSTM(6, 5, 2, bidirectional=True)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        h = self.norm(self.act(self.conv(x)))
        out, _ = self.lstm(h)
        return out * 2
"""
TORCH = """
import numpy as np, torch, net
from safetensors.torch import save_file

torch.manual_seed(0)
x = {"ResNet": torch.randn(2, 3, 6, 6), "Former": torch.arange(10).reshape(2, 5), "Layers": torch.randn(2, 3, 8)}
for name, value in x.items():
    model = getattr(net, name)().eval()
    for parameter in model.parameters():
        parameter.data.normal_(0.0, 0.5)
    for key, buffer in model.named_buffers():
        if "running" in key:
            buffer.data.uniform_(0.5, 1.5)
    if name == "ResNet":
        save_file(model.state_dict(), "ResNet.pth.safetensors")
        torch.save({"state_dict": {f"module.{k}": v for k, v in model.state_dict().items()}, "epoch": 3}, "ResNet.pth")
    else:
        torch.save(model.state_dict(), f"{name}.pth")
    np.savez(f"{name}.npz", x=value.numpy(), y=model(value).detach().numpy())
"""
MINDSPORE = """
import mindspore as ms, numpy as np, net_ms as net

for name, file in (("Layers", "Layers.ckpt"), ("ResNet", "ResNet.ckpt"), ("Former", "Former.ckpt"),
                   ("ResNet", "ResNet.safetensors")):
    found = np.load(f"{name}.npz")
    model = getattr(net, name)()
    model.set_train(False)
    values = ms.load_checkpoint(file, format=file.rpartition(".")[2])
    missing, extra = ms.load_param_into_net(model, values, strict_load=True)
    got = model(ms.Tensor(found["x"])).asnumpy()
    print(file, missing, extra, np.abs(got - found["y"]).max() < 1e-4)
"""


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"GLOG_v": "3", "OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The networks, their checkpoints, and what torch gives for an input."""
    path = tmp_path_factory.mktemp("weights")
    (path / "net.py").write_text(PROGRAM)
    made = python(path, "-c", TORCH)
    assert made.returncode == 0, made.stderr
    return path


def weights(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "-m", "torch2ms", "weights", *words)


def test_translated_models_give_the_same_outputs(folder: Path) -> None:
    done = python(folder, "-m", "torch2ms", "convert", "net.py", "--strict")
    assert done.returncode == 0, done.stderr
    orders = [(f"{name}.pth", f"{name}.ckpt") for name in NAMES] + [("ResNet.pth.safetensors", "ResNet.safetensors")]
    for source, target in orders:
        name = target.partition(".")[0]
        done = weights(folder, source, "--like", f"net.py:{name}", "--translated", "net_ms.py", "-o", target)
        assert done.returncode == 0, done.stderr
        if name == "Former":
            assert "left out: head.weight: the same parameter as another" in done.stdout
    ran = python(folder, "-c", MINDSPORE)
    assert ran.returncode == 0, ran.stderr[-2000:]
    lines = ran.stdout.splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["True"] * 4, ran.stdout
    assert all(" [] [] " in line for line in lines), ran.stdout


def test_a_model_of_another_shape_is_told_and_nothing_written(folder: Path) -> None:
    done = weights(folder, "ResNet.pth", "--like", "net.py:ResNet(num_classes=5)", "-o", "other.ckpt")
    assert done.returncode == 1
    assert "fc.weight: (3, 4) in the checkpoint, (5, 4) in the model" in done.stderr
    assert not (folder / "other.ckpt").exists()


def test_a_translation_that_differs_is_told(folder: Path) -> None:
    text = (folder / "net_ms.py").read_text()
    assert "self.fc = nn.Dense" in text
    (folder / "edited.py").write_text(text.replace("self.fc", "self.classifier"))
    done = weights(folder, "ResNet.pth", "--like", "net.py:ResNet", "--translated", "edited.py", "-o", "other.ckpt")
    assert done.returncode == 1 and not (folder / "other.ckpt").exists()
    assert "fc.weight: the translated model has no parameter fc.weight" in done.stderr
    assert "classifier.bias: the translated model has it, the checkpoint does not" in done.stderr


def test_a_side_that_cannot_run_is_no_pass(folder: Path) -> None:
    done = weights(folder, "ResNet.pth", "--like", "net.py:Missing", "-o", "other.ckpt")
    assert done.returncode == 2 and "AttributeError" in done.stderr


def test_names_of_parameters() -> None:
    classes = {"encoder": "TransformerEncoder", "encoder.layers.0": "TransformerEncoderLayer",
               "encoder.layers.0.linear1": "Linear", "encoder.layers.0.norm1": "LayerNorm", "bn": "BatchNorm2d",
               "conv": "Conv1d"}  # fmt: skip
    assert place_of("encoder.layers.0.linear1.weight", classes) == Place("encoder.layers.0.dense1.weight")
    assert place_of("encoder.layers.0.norm1.weight", classes) == Place("encoder.layers.0.norm1.gamma")
    assert place_of("bn.running_var", classes) == Place("bn.moving_variance")
    assert place_of("bn.num_batches_tracked", classes) is None
    assert place_of("conv.weight", classes) == Place("conv.weight", 2)
    assert place_of("scale.weight", classes) == Place("scale.weight")


def test_like() -> None:
    assert Like.parse("a/net.py:Net(3, depth=[1, 2])") == Like(Path("a/net.py"), "Net", [3], {"depth": [1, 2]})
    for text in ("net.py", "net.py:a.b", "net.py:Net(x)", "net.py:Net("):
        with pytest.raises(LikeError):
            Like.parse(text)
