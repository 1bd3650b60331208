"""torchvision's boxes and images: numbers of torchvision 0.28, which is not among the packages of the tests."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from torch2ms import convert_source
from torch2ms.findings import Tier

BEFORE = """import numpy as np
import torch
from PIL import Image
from torchvision import ops
from torchvision import transforms
from torchvision.transforms import functional as F

first = torch.tensor([[0.0, 0.0, 4.0, 3.0], [1.0, 1.0, 5.0, 6.0], [2.0, 0.5, 3.0, 2.0]])
second = torch.tensor([[0.5, 0.0, 3.0, 3.0], [2.0, 2.0, 6.0, 7.0], [2.0, 0.5, 3.5, 2.2]])
scores = torch.tensor([0.4, -0.9, 0.6])
pixels = (np.arange(75).reshape(5, 5, 3) * 7 % 256).astype(np.uint8)
photo = Image.fromarray(pixels)
image = torch.tensor(pixels.transpose(2, 0, 1) / 255, dtype=torch.float32)
"""
MEASURED = [
    ("ops.box_area(first)", (3,), 22.1818),
    ("ops.roi_align(image[None], [first], (2, 3), 0.5)", (3, 3, 2, 3), -1.6206),
    ("ops.RoIAlign(2, 1.0, 2, aligned=True)(image[None], [first])", (3, 3, 2, 2), -0.5841),
    ("ops.box_iou(first, second)", (3, 3), 0.255),
    ("ops.generalized_box_iou(first, second)", (3, 3), 0.1259),
    ("ops.distance_box_iou(first, second)", (3, 3), 0.0671),
    ("ops.complete_box_iou(first, second)", (3, 3), 0.0656),
    ('ops.box_convert(first, "xyxy", "cxcywh")', (3, 4), 2.4829),
    ('ops.box_convert(first, in_fmt="xywh", out_fmt="xyxy")', (3, 4), 1.1029),
    ("ops.clip_boxes_to_image(first, (4, 3))", (3, 4), -1.9472),
    ("ops.remove_small_boxes(first, 2.0)", (2,), 0.5403),
    ('ops.generalized_box_iou_loss(first, second, reduction="sum")', (), 1.4249),
    ("ops.distance_box_iou_loss(first, second)", (3,), 0.5267),
    ("ops.complete_box_iou_loss(first, second)", (3,), 0.5279),
    ("ops.sigmoid_focal_loss(scores, (scores > 0).float(), alpha=0.3, gamma=1.5)", (3,), 0.0477),
    ("ops.FrozenBatchNorm2d(3)(image[None])", (1, 3, 5, 5), -4.5231),
    ("F.hflip(image)", (3, 5, 5), 1.9467),
    ("F.vflip(image)", (3, 5, 5), -2.6705),
    ("F.crop(image, -1, 2, 4, 5)", (3, 4, 5), 2.4605),
    ("F.center_crop(image, (2, 7))", (3, 2, 7), -1.7406),
    ("F.pad(image, (1, 2), fill=0.5)", (3, 9, 7), 0.9299),
    ('F.pad(image, 1, padding_mode="reflect")', (3, 7, 7), -0.6761),
    ("F.normalize(image, [0.5, 0.4, 0.3], [0.2, 0.3, 0.4])", (3, 5, 5), -14.0595),
    ("F.rgb_to_grayscale(image)", (1, 5, 5), -1.3658),
    ("F.adjust_brightness(image, 1.5)", (3, 5, 5), -4.6516),
    ("F.adjust_contrast(image, 1.5)", (3, 5, 5), -5.1959),
    ("F.adjust_saturation(image, 0.3)", (3, 5, 5), -4.5867),
    ("F.adjust_gamma(image, 0.5)", (3, 5, 5), -4.4754),
    ("F.invert(image)", (3, 5, 5), 4.2073),
    ("F.solarize(image, 0.5)", (3, 5, 5), 0.0171),
    ("F.posterize((image * 255).to(torch.uint8), 3)", (3, 5, 5), -1143.9768),
    ("F.erase(image, 1, 1, 2, 3, torch.tensor(0.0))", (3, 5, 5), -8.2059),
    ("F.five_crop(image, 3)[4]", (3, 3, 3), 0.1622),
    ("F.convert_image_dtype(image, torch.uint8)", (3, 5, 5), -1153.3901),
    ("F.to_tensor(photo)", (3, 5, 5), -4.5231),
    ("F.pil_to_tensor(photo)", (3, 5, 5), -1153.3901),
    ("transforms.CenterCrop((2, 3))(image)", (3, 2, 3), 1.21),
    ("transforms.Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])(image)", (3, 5, 5), -14.0595),
    ("transforms.ToTensor()(photo)", (3, 5, 5), -4.5231),
    ("transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.2])])(photo)", (3, 5, 5), -21.826),
    (
        "transforms.Compose([transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float32)])(photo)",
        (3, 5, 5),
        -4.5231,
    ),
    ('np.array(transforms.Pad(1, padding_mode="reflect")(photo))', (7, 7, 3), 498.1878),
    ("np.array(transforms.RandomInvert(p=1.0)(photo))", (5, 5, 3), 432.232),
    ("np.array(transforms.RandomApply([transforms.CenterCrop(3)], p=1.0)(photo))", (3, 3, 3), 189.2724),
    ("np.array(transforms.TenCrop(3)(photo)[8])", (3, 3, 3), 507.6562),
    ("np.array(F.hflip(photo))", (5, 5, 3), -745.931),
    ("np.array(F.crop(photo, 1, 2, 3, 2))", (3, 2, 3), 86.723),
    ("np.array(F.center_crop(photo, 3))", (3, 3, 3), 189.2724),
    ("np.array(F.pad(photo, 1))", (7, 7, 3), 154.5663),
    ("np.array(F.resize(photo, (4, 6)))", (4, 6, 3), 199.6695),
    ("np.array(F.resize(photo, 3))", (3, 3, 3), 184.1458),
    ("np.array(F.rotate(photo, 30))", (5, 5, 3), -581.7667),
    ("np.array(F.adjust_brightness(photo, 1.5))", (5, 5, 3), -511.1631),
    ("np.array(F.adjust_contrast(photo, 1.5))", (5, 5, 3), -514.0945),
    ("np.array(F.adjust_saturation(photo, 1.5))", (5, 5, 3), -538.417),
    ("np.array(F.adjust_hue(photo, 0.2))", (5, 5, 3), -67.0662),
    ("np.array(F.adjust_gamma(photo, 2))", (5, 5, 3), -511.2891),
    ("np.array(F.to_grayscale(photo))", (5, 5), -348.7051),
    ("F.resize(image, [3, 4])", (3, 3, 4), -2.83112),
    ("F.resize(image, [8, 3])", (3, 8, 3), -0.114653),
    ("F.resize(image[None], 3)", (1, 3, 3, 3), 0.295514),
    ("F.resize(image, [3, 4], antialias=False)", (3, 3, 4), -4.44734),
    ("F.resize(image, [3, 8], transforms.InterpolationMode.NEAREST)", (3, 3, 8), 0.641908),
    ("F.resized_crop(image, 0, 1, 4, 3, [2, 2])", (3, 2, 2), -0.377255),
    ("F.gaussian_blur(image, [3, 5], [0.8, 0.6])", (3, 5, 5), -3.14627),
    ("F.gaussian_blur(image[None], 3)", (1, 3, 5, 5), -2.92276),
    ("F.adjust_sharpness(image, 2.0)", (3, 5, 5), -3.7473),
    ("F.adjust_hue(image, 0.2)", (3, 5, 5), -4.32117),
    ("F.adjust_hue(image, -0.45)", (3, 5, 5), -4.60003),
    ("F.autocontrast(image[:, 1:4] * 0.5)", (3, 3, 5), 0.964307),
    ("F.autocontrast((image * 200).to(torch.uint8))", (3, 5, 5), -1192.81),
    ("F.ten_crop(image, 3)[7]", (3, 3, 3), 0.0758686),
    ("np.array(F.to_pil_image(image))", (5, 5, 3), -512.759),
    ("np.array(transforms.ToPILImage()((image * 255).to(torch.uint8)))", (5, 5, 3), -512.759),
    ("np.array(F.to_pil_image(image[:1]))", (5, 5), -183.81),
    ("transforms.Pad((1, 2, 0, 3), fill=1)(torch.arange(24.0).reshape(3, 2, 4))", (3, 7, 5), 30.2717),
    ("transforms.Pad(1, padding_mode='reflect')(torch.arange(24.0).reshape(3, 2, 4))", (3, 4, 6), 3.48245),
    ("transforms.RandomCrop(2)(torch.arange(12.0).reshape(3, 2, 2))", (3, 2, 2), -11.1261),
]  # what is computed, its shape, and its elements times cos(0), cos(1), cos(2)... together


def digest(values: Any) -> float:
    flat = np.asarray(values.asnumpy() if hasattr(values, "asnumpy") else values, np.float64).ravel()
    return float((flat * np.cos(np.arange(flat.size))).sum())


@pytest.fixture(scope="module")
def computed() -> dict[str, Any]:
    lines = [f"r{n} = {text}" for n, (text, _, _) in enumerate(MEASURED)]
    result = convert_source(BEFORE + "\n".join(lines) + "\n")
    assert not [f for f in result.findings if f.tier is Tier.REFUSED], result.findings
    scope: dict[str, Any] = {}
    exec(result.text, scope)
    return {text: scope[f"r{n}"] for n, (text, _, _) in enumerate(MEASURED)}


@pytest.mark.parametrize(("text", "shape", "total"), MEASURED, ids=[text for text, _, _ in MEASURED])
def test_as_measured(text: str, shape: tuple[int, ...], total: float, computed: dict[str, Any]) -> None:
    assert tuple(computed[text].shape) == shape
    assert digest(computed[text]) == pytest.approx(total, rel=1e-4, abs=2e-3)


def test_best_boxes() -> None:
    """Greedy: what a better box covers goes; of two kinds both stay."""
    text = """import torch
from torchvision.ops import batched_nms, nms

boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.5], [5.0, 5.0, 6.0, 6.0], [0.0, 0.0, 4.0, 3.0]])
scores = torch.tensor([0.5, 0.9, 0.7, 0.8])
kept = nms(boxes, scores, 0.8)
of_kinds = batched_nms(boxes, scores, torch.tensor([0, 0, 0, 1]), iou_threshold=0.8)
"""
    scope: dict[str, Any] = {}
    exec(convert_source(text).text, scope)
    assert scope["kept"].asnumpy().tolist() == [1, 2]
    assert scope["of_kinds"].asnumpy().tolist() == [1, 3, 2]


NETWORKS = [
    ("resnet18(num_classes=7)", 11180103, 0.524035),
    ("resnext50_32x4d(num_classes=3)", 22986051, -0.0503226),
    ("mobilenet_v2(num_classes=6, width_mult=0.5)", 695366, -0.929526),
    ("squeezenet1_0(num_classes=4)", 737476, 1.09895),
    ("squeezenet1_1()", 1235496, -0.621093),
    ("alexnet(num_classes=5)", 57024325, -5.26091),
    ("vgg11_bn(pretrained=False, num_classes=2)", 128780034, 1.35738),
]  # the network, how many numbers its parameters have, and what comes out where they are waves


@pytest.mark.parametrize(("made", "count", "total"), NETWORKS, ids=[made for made, _, _ in NETWORKS])
def test_networks(made: str, count: int, total: float) -> None:
    import mindspore as ms

    result = convert_source(f"from torchvision import models\n\nnet = models.{made}\nnet.eval()\n")
    assert not [f for f in result.findings if f.tier is Tier.REFUSED], result.findings
    scope: dict[str, Any] = {}
    exec(result.text, scope)
    parameters = scope["net"].trainable_params()
    for k, p in enumerate(parameters):
        wave = np.cos(np.arange(p.size) * 1.7 + k)
        values = wave / np.sqrt(p.size // p.shape[0]) if p.ndim > 1 else 0.9 + 0.1 * wave
        p.set_data(ms.Tensor(values.reshape(p.shape).astype(np.float32)))
    image = np.sin(np.arange(2 * 3 * 64 * 64) * 0.3).reshape(2, 3, 64, 64).astype(np.float32)
    assert sum(p.size for p in parameters) == count
    assert digest(scope["net"](ms.Tensor(image))) == pytest.approx(total, rel=1e-3, abs=1e-3)


def test_weights_of_pytorch() -> None:
    result = convert_source("from torchvision import models\n\nnet = models.resnet18(pretrained=True)\n")
    assert [f.code for f in result.findings if f.tier is Tier.REFUSED] == ["T2M603"]


def test_grids_of_images(tmp_path: Path) -> None:
    text = f"""import torch
from torchvision.utils import make_grid, save_image

images = torch.arange(240.0).reshape(5, 3, 4, 4) / 240
first = make_grid(images, 2, normalize=True, pad_value=0.5)
second = make_grid(torch.arange(80.0).reshape(5, 1, 4, 4), normalize=True, scale_each=True, value_range=(3, 50))
third = make_grid([images[0], images[1]], nrow=1, padding=0)
save_image(images, {str(tmp_path / "grid.png")!r}, nrow=3)
"""
    scope: dict[str, Any] = {}
    exec(convert_source(text).text, scope)
    assert [scope[name].shape for name in ("first", "second", "third")] == [(3, 20, 14), (3, 8, 32), (3, 8, 4)]
    assert digest(scope["first"]) == pytest.approx(0.3727, abs=2e-3)
    assert digest(scope["second"]) == pytest.approx(-16.7695, abs=2e-3)
    assert digest(scope["third"]) == pytest.approx(0.6739, abs=2e-3)
    assert digest(np.array(Image.open(tmp_path / "grid.png"))) == pytest.approx(-68.5868, abs=2e-3)


def test_trained_anew(tmp_path: Path) -> None:
    """A network with another last layer: its call depends on its parameters, though no class of it is seen."""
    text = """import torch
from torch import nn
from torchvision import models

torch.manual_seed(3)
model = models.squeezenet1_1()
model.classifier[1] = nn.Conv2d(512, 3, kernel_size=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
before = [p.detach().clone() for p in model.parameters()]
outputs = model(torch.ones(2, 3, 32, 32) * torch.arange(2.0).reshape(2, 1, 1, 1))
loss = nn.CrossEntropyLoss()(outputs, torch.tensor([0, 2]))
optimizer.zero_grad()
loss.backward()
optimizer.step()
moved = [bool((p != b).any()) for p, b in zip(model.parameters(), before)]
"""
    result = convert_source(text)
    assert not [f for f in result.findings if f.tier is Tier.REFUSED], result.findings
    assert "ms.value_and_grad(forward_fn, None, optimizer.parameters" in result.text
    (tmp_path / "train.py").write_text(result.text)  # optimizers are compiled from their source
    assert sum(runpy.run_path(str(tmp_path / "train.py"))["moved"]) > 40


BLOCKS = [
    ("ops.MLP(5, [3, 2], norm_layer=nn.LayerNorm, activation_layer=nn.GELU, bias=False)", (1, 4, 5, 2), 0.0245),
    ("ops.SqueezeExcitation(4, 2, nn.SiLU)", (1, 4, 5, 5), -0.9684),
    ("ops.Conv2dNormActivation(4, 3, stride=2, dilation=2, activation_layer=nn.Hardswish)", (1, 3, 3, 3), -0.0727),
    ("ops.Conv2dNormActivation(4, 2, 1, norm_layer=None, groups=2, activation_layer=None)", (1, 2, 5, 5), -0.1887),
]  # all parameters are 0.1, and statistics those of the batch


def test_blocks() -> None:
    made = "\n".join(f"nets.append({text})" for text, _, _ in BLOCKS)
    text = f"""import torch
from torch import nn
from torchvision import ops

nets = []
{made}
for net in nets:
    for p in net.parameters():
        nn.init.constant_(p, 0.1)
results = [net(torch.arange(100.0).reshape(1, 4, 5, 5) / 50) for net in nets]
"""
    result = convert_source(text)
    assert not [f for f in result.findings if f.tier is Tier.REFUSED], result.findings
    scope: dict[str, Any] = {}
    exec(result.text, scope)
    assert [r.shape for r in scope["results"]] == [shape for _, shape, _ in BLOCKS]
    assert [digest(r) for r in scope["results"]] == pytest.approx([total for _, _, total in BLOCKS], abs=5e-4)


def test_a_block_in_a_network() -> None:
    """Networks with such a block look at their mode; a class that is derived from one gives it torch's arguments."""
    text = """from torch import nn
from torchvision.ops import {name}

class Net({base}):
    def __init__(self):
        super().__init__({given})
        {line}

net = Net()
"""
    block = "Conv2dNormActivation"
    held = text.format(name=block, base="nn.Module", given="", line=f"self.c = {block}(3, 4)")
    assert "net.set_train()" in convert_source(held).text
    derived = convert_source(text.format(name="MLP", base="MLP", given="4, [3, 2]", line="pass"))
    assert "T2M608" in [f.code for f in derived.findings if f.tier is Tier.REFUSED]


def test_an_image_is_normalised_where_it_stands() -> None:
    """A name takes the result; what a caller gave, or another name shows, is written into; a value is refused."""
    text = """import torch
from torchvision.transforms.functional import normalize

def prepared(image):
    normalize(image, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), inplace=True)

def image():
    return torch.arange(75.0).reshape(3, 5, 5) / 75

wanted = normalize(image(), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
first = image()
normalize(first, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), inplace=True)
second = image()
other = second
prepared(second)
"""
    scope: dict[str, Any] = {}
    exec(convert_source(text).text, scope)
    for name in ("first", "second", "other"):
        assert np.allclose(scope[name].asnumpy(), scope["wanted"].asnumpy())
    assert "T2M605" in convert_source(text + "x = normalize(first, (0.5,), (0.2,), inplace=True)\n").text
