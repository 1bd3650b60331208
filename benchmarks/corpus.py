"""The programs that are measured."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).resolve().parents[1]
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nimport torch.optim as optim\n\n\n"
PART = """class Net@(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.fc1 = nn.Linear(4, width)  # first
        self.fc2 = nn.Linear(width, 2)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return self.fc2(x)


def train@(model, loader, epochs):
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        total = 0.0
        for data, target in loader:
            optimizer.zero_grad()
            output = model(data)
            loss = criterion(output, target)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 10 == 0:
            print(f"epoch {epoch}: {total:.4f}")
    return model


def helper@(values, scale=1.0):
    'Nothing of torch.'
    out = []
    for value in values:
        if value > 0:
            out.append(value * scale)
        else:
            out.append(0.0)
    return out


model@ = Net@()
config@ = {"a": 1, "b": [1, 2, 3]}
if config@["a"] > 0:
    result@ = helper@([1, 2, 3])
x@ = torch.relu(torch.ones(3, 4))
print(x@.sum(dim=1), result@)
"""

TRAINING = """from nets import NETS


def fit(name, loader):
    model = NETS[name]()
    optimizer = optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = model.loss(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model
"""


def fixtures() -> dict[str, dict[str, str]]:
    """Every fixture of one file, each a project of its own."""
    paths = sorted((ROOT / "fixtures").glob("*/*/original.py"))
    return {str(path.parent): {"original.py": path.read_text(encoding="utf-8")} for path in paths}


def some(files: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """One of sixteen fixtures: the same ones, whichever others there are."""
    return {name: one for name, one in files.items() if not crc32("/".join(Path(name).parts[-2:]).encode()) % 16}


def program(parts: int) -> str:
    """One file of 47 lines a part: a network, its training, a function without torch, and code of the module."""
    return HEAD + "\n\n".join(PART.replace("@", str(number)) for number in range(parts))


def package(files: int) -> dict[str, str]:
    """One project: networks of one base in a file each, a list of them all, and the training that picks one of it."""
    base = HEAD + "class Base(nn.Module):\n    def loss(self, x, y):\n        return F.mse_loss(self(x), y)\n"
    nets = {
        f"nets/net{n}.py": HEAD + "from base import Base\n\n\n" + PART.replace("nn.Module", "Base").replace("@", str(n))
        for n in range(files)
    }
    listed = "".join(f"from nets.net{n} import Net{n}\n" for n in range(files))
    table = "NETS = {" + ", ".join(f'"net{n}": Net{n}' for n in range(files)) + "}\n"
    return {"base.py": base, **nets, "nets/__init__.py": listed + "\n" + table, "train.py": HEAD + TRAINING}


def project(folder: Path, files: int) -> None:
    """Files that do not import each other."""
    for number in range(files):
        (folder / f"m{number}.py").write_text(program(3).replace("Net0", f"Net_{number}"), encoding="utf-8")


def plain(folder: Path, files: int) -> None:
    """Files without torch."""
    for number in range(files):
        (folder / f"p{number}.py").write_text(f"x = {number}\n" * 200, encoding="utf-8")
