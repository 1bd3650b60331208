"""torchvision's data sets and transforms, translated and run on files as torchvision leaves them."""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.installed import skip_without

skip_without("mindspore", reason="the translation runs on it")
ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import json
import numpy as np
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.transforms import InterpolationMode

digits = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.25,))])
photos = transforms.Compose([transforms.Resize(8), transforms.CenterCrop(6), transforms.ToTensor(),
                             transforms.Normalize([0.5, 0.4, 0.3], [0.5, 0.25, 0.2])])
large = transforms.Resize((12, 10), interpolation=InterpolationMode.BICUBIC)
sets = [datasets.MNIST("data", train=False, transform=digits), datasets.CIFAR10("data", transform=photos),
        datasets.CIFAR100("data", False, transform=photos, target_transform=lambda label: label + 1),
        datasets.ImageFolder("data/photos", photos)]
found = []
for one in sets:
    image, label = one[1]
    found.append([len(one), int(label), np.asarray(image).round(5).tolist()])
found.append(np.asarray(large(datasets.CIFAR10("data")[0][0])).tolist())
found.append(sets[3].classes)
with open("found.json", "w") as stream:
    json.dump(found, stream)
"""
LOADED = """
for image, label in DataLoader(sets[0], batch_size=3):
    print(tuple(image.shape), [int(number) for number in label])
"""


def write_data(folder: Path) -> dict[str, Any]:
    """Small files in torchvision's folders; the pixels behind them."""
    import numpy as np
    from PIL import Image

    rng = np.random.RandomState(0)
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    digits, labels = rng.randint(0, 256, (3, 28, 28)).astype(np.uint8), np.array([7, 2, 9], np.uint8)
    for part in ("train", "t10k"):
        for kind, numbers in (("images-idx3", digits), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, numbers.ndim]) + np.array(numbers.shape, ">i4").tobytes()
            (raw / f"{part}-{kind}-ubyte").write_bytes(head + numbers.tobytes())
    rows = rng.randint(0, 256, (10, 3072)).astype(np.uint8)
    ten, hundred = folder / "cifar-10-batches-py", folder / "cifar-100-python"
    ten.mkdir()
    hundred.mkdir()
    parts = {ten / f"data_batch_{i + 1}": {"data": rows[2 * i : 2 * i + 2], "labels": [i, i + 1]} for i in range(5)}
    parts |= {ten / "batches.meta": {"label_names": list("abcdefghij")},
              ten / "test_batch": {"data": rows[:2], "labels": [0, 1]},
              hundred / "train": {"data": rows[:4], "fine_labels": [50, 60, 70, 80]},
              hundred / "test": {"data": rows[:4], "fine_labels": [50, 60, 70, 80]},
              hundred / "meta": {"fine_label_names": [str(i) for i in range(100)]}}  # fmt: skip
    for path, content in parts.items():
        path.write_bytes(pickle.dumps(content))
    for name in ("dog", "cat"):
        (folder / "photos" / name).mkdir(parents=True)
        Image.fromarray(rng.randint(0, 256, (9, 11, 3)).astype(np.uint8)).save(folder / "photos" / name / "0.png")
    return {"digits": digits, "rows": rows}


def run(folder: Path, *words: str) -> str:
    env = {"GLOG_v": "3", "OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images")
    write_data(path / "data")
    (path / "program.py").write_text(PROGRAM)
    (path / "loaded.py").write_text(PROGRAM + LOADED)
    return path


def test_images_and_labels_are_those_of_the_files(folder: Path) -> None:
    import numpy as np

    pixels = write_data(folder / "again")
    run(folder, "-m", "torch2ms", "convert", "loaded.py", "-o", "loaded_ms.py")
    assert run(folder, "loaded_ms.py").splitlines() == ["(3, 1, 28, 28) [7, 2, 9]"]
    digit, ten, hundred, photo, large, classes = json.loads((folder / "found.json").read_text())
    assert [digit[:2], ten[:2], hundred[:2], photo[:2]] == [[3, 2], [10, 1], [4, 61], [2, 1]]
    assert classes == ["cat", "dog"]
    np.testing.assert_allclose(digit[2], (pixels["digits"][1:2] / 255 - 0.5) / 0.25, atol=2e-5)
    assert np.shape(ten[2]) == np.shape(photo[2]) == (3, 6, 6) and np.shape(large) == (12, 10, 3)


@pytest.mark.skipif(
    importlib.util.find_spec("torchvision") is None,
    reason="torchvision is not among what the tests install: its wheels ask for other builds of PyTorch",
)
def test_torchvision_gives_the_same(folder: Path) -> None:
    import numpy as np

    run(folder, "-m", "torch2ms", "convert", "program.py", "-o", "program_ms.py")
    unsealed = "import torchvision.datasets.cifar as c, runpy; c.check_integrity = lambda *a, **k: True;"
    found = []
    for words in (["-c", f"{unsealed} runpy.run_path('program.py')"], ["program_ms.py"]):
        run(folder, *words)
        found.append(json.loads((folder / "found.json").read_text()))
    assert found[0][-1] == found[1][-1]
    for one, other in zip(found[0][:4], found[1][:4], strict=True):
        assert one[:2] == other[:2]
        np.testing.assert_allclose(one[2], other[2], atol=2e-5)
    assert found[0][4] == found[1][4]
