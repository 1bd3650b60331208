"""Programs as people have them, verified without an edit: several files, arguments, augmentation."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from torch2ms import convert_source
from torch2ms.verify.cli import verify

AUGMENTED = """\
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self, n):
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(n, 4)).astype(np.float32)
        self.y = (self.x.sum(1) > 0).astype(np.int64)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i] + np.random.normal(0, 0.1, size=4).astype(np.float32)
        if random.random() < 0.5:
            x = -x
        return torch.from_numpy(x), int(self.y[i])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=100)
    args = parser.parse_args()
    loader = DataLoader(Noisy(30), batch_size=8, shuffle=True, drop_last=True, num_workers=2)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(args.epochs):
        for x, y in loader:
            weight = np.random.beta(2.0, 2.0)
            optimizer.zero_grad()
            loss = weight * F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
TRAINER = """\
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def fit(self, batches):
        for x, y in batches:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
"""
NET = """\
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Linear(width, 6)
        self.decoder = nn.Linear(6, width)

    def forward(self, x):
        return self.decoder(self.encoder(x).tanh())
"""
MAIN = """\
import json
import os

import torch

from app.trainer import Trainer

from .models.net import Net

with open("settings.json") as file:
    settings = json.load(file)
assert os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), "models"))

if __name__ == "__main__":
    trainer = Trainer(Net(settings["width"]))
    data = [(torch.randn(5, 3), torch.randn(5, 3)) for _ in range(10)]
    while True:
        trainer.fit(data)
"""


def report_of(tmp_path: Path, program: Path, *arguments: str) -> dict:
    """The JSON of a verification on the command line."""
    target = tmp_path / "report.json"
    done = CliRunner().invoke(verify, [str(program), "--json", str(target), *arguments])
    assert target.exists(), done.output
    report = json.loads(target.read_text())
    assert done.exit_code == report["exit_code"]
    return report


def test_augmentation_shuffling_dropout_and_arguments(tmp_path):
    (tmp_path / "train.py").write_text(AUGMENTED)
    report = report_of(tmp_path, tmp_path / "train.py", "--", "--epochs", "2")
    assert report["verdict"] == "agree", report["problems"][:3]
    assert len(report["steps"]) == 6 and report["compared"]["buffer"] > 0
    assert "6 random draws replayed" in report["notes"]


def test_steps_stop_an_endless_program_of_a_package(tmp_path, monkeypatch):
    package = {"__init__": "", "train": MAIN, "trainer": TRAINER, "models/__init__": "", "models/net": NET}
    (tmp_path / "app" / "models").mkdir(parents=True)
    for name, text in package.items():
        (tmp_path / "app" / f"{name}.py").write_text(text)
    (tmp_path / "settings.json").write_text('{"width": 3}')
    monkeypatch.chdir(tmp_path)
    report = report_of(tmp_path, tmp_path / "app" / "train.py", "--steps", "12")
    assert report["verdict"] == "agree", report["problems"][:3]
    assert len(report["steps"]) == 12 and report["compared"]["gradient"] == 48


SUMMED = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
net, other = nn.Linear(4, 1), nn.Linear(4, 4)
opt = torch.optim.Adam(net.parameters(), lr=0.02)
opt_other = torch.optim.Adam(other.parameters(), lr=0.02)


def train_step(i, x, y):
    loss = F.softplus(-net(x)).mean() + F.softplus(net(other(x).detach())).mean()
    opt.zero_grad()
    loss.backward()
    extra = 0.01 * net(x).pow(2).mean()
    extra.backward()
    opt.step()
    fooled = F.softplus(-net(other(x))).mean()
    if i % 2:
        return
    opt_other.zero_grad()
    fooled.backward()
    opt_other.step()


for i in range(5):
    train_step(i, torch.randn(6, 4), torch.randn(6, 1))
"""


def test_losses_that_are_differentiated_as_a_sum_or_before_a_condition(tmp_path):
    (tmp_path / "train.py").write_text(SUMMED)
    report = report_of(tmp_path, tmp_path / "train.py")
    assert report["verdict"] == "agree", report["problems"][:3]
    assert report["compared"]["loss"] == 8 and report["compared"]["gradient"] == 16


def test_such_a_sum_with_another_factor_differs(tmp_path):
    (tmp_path / "train.py").write_text(SUMMED)
    translated = tmp_path / "translated.py"
    translated.write_text(convert_source(SUMMED).text.replace("extra = 0.01 *", "extra = 0.02 *"))
    report = report_of(tmp_path, tmp_path / "train.py", str(translated))
    assert report["verdict"] == "differ" and "loss" in {problem["what"].split()[0] for problem in report["problems"]}
