"""More networks of torchvision: its names of layers, and weights that are drawn as it draws them."""

from mindspore import nn, ops
from mindspore.common.initializer import HeNormal, HeUniform, Normal


class AlexNet(nn.Cell):
    def __init__(self, num_classes=1000, dropout=0.5):
        super().__init__()
        cells, inputs = [], 3
        for place, (outputs, size) in enumerate([(64, 11), (192, 5), (384, 3), (256, 3), (256, 3)]):
            stride, padding = (1, size // 2) if place else (4, 2)
            cells += [nn.Conv2d(inputs, outputs, size, stride, "pad", padding, has_bias=True), nn.ReLU()]
            cells += [nn.MaxPool2d(3, 2)] if place in (0, 1, 4) else []
            inputs = outputs
        self.features = nn.SequentialCell(*cells)
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.SequentialCell(
            nn.Dropout(p=dropout), nn.Dense(256 * 6 * 6, 4096), nn.ReLU(),
            nn.Dropout(p=dropout), nn.Dense(4096, 4096), nn.ReLU(), nn.Dense(4096, num_classes),
        )  # fmt: skip

    def construct(self, x):
        return self.classifier(ops.flatten(self.avgpool(self.features(x)), start_dim=1))


class VGG(nn.Cell):
    """`counts` are the convolutions before each of the five poolings."""

    def __init__(self, counts, num_classes=1000, dropout=0.5, batch_norm=False):
        super().__init__()
        cells, inputs = [], 3
        for outputs, count in zip((64, 128, 256, 512, 512), counts):
            for _ in range(count):
                weights = HeNormal(mode="fan_out", nonlinearity="relu")
                cells += [nn.Conv2d(inputs, outputs, 3, 1, "pad", 1, 1, 1, True, weights, "zeros")]
                cells += [nn.BatchNorm2d(outputs), nn.ReLU()] if batch_norm else [nn.ReLU()]
                inputs = outputs
            cells.append(nn.MaxPool2d(2, 2))
        self.features = nn.SequentialCell(*cells)
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.SequentialCell(
            nn.Dense(512 * 7 * 7, 4096, Normal(0.01), "zeros"), nn.ReLU(), nn.Dropout(p=dropout),
            nn.Dense(4096, 4096, Normal(0.01), "zeros"), nn.ReLU(), nn.Dropout(p=dropout),
            nn.Dense(4096, num_classes, Normal(0.01), "zeros"),
        )  # fmt: skip

    def construct(self, x):
        return self.classifier(ops.flatten(self.avgpool(self.features(x)), start_dim=1))


def conv_norm(inputs, outputs, size=3, stride=1, groups=1):
    return conv_of_network(inputs, outputs, size, stride, groups), nn.BatchNorm2d(outputs)


class InvertedResidual(nn.Cell):
    def __init__(self, inp, oup, stride, expand_ratio):
        super().__init__()
        self.stride = stride
        self.use_res_connect = stride == 1 and inp == oup
        hidden = round(inp * expand_ratio)
        wider = [nn.SequentialCell(*conv_norm(inp, hidden, 1), ReLU6())] if expand_ratio != 1 else []
        depthwise = nn.SequentialCell(*conv_norm(hidden, hidden, 3, stride, hidden), ReLU6())
        self.conv = nn.SequentialCell(*wider, depthwise, *conv_norm(hidden, oup, 1))

    def construct(self, x):
        return x + self.conv(x) if self.use_res_connect else self.conv(x)


def divisible_by_8(width):
    rounded = max(8, int(width + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * width else rounded


class MobileNetV2(nn.Cell):
    def __init__(self, num_classes=1000, width_mult=1.0, dropout=0.2):
        super().__init__()
        inputs, self.last_channel = divisible_by_8(32 * width_mult), divisible_by_8(1280 * max(1.0, width_mult))
        cells = [nn.SequentialCell(*conv_norm(3, inputs, 3, 2), ReLU6())]
        plan = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
        plan += [(6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
        for ratio, width, count, stride in plan:
            outputs = divisible_by_8(width * width_mult)
            for place in range(count):
                cells.append(InvertedResidual(inputs, outputs, 1 if place else stride, ratio))
                inputs = outputs
        cells.append(nn.SequentialCell(*conv_norm(inputs, self.last_channel, 1), ReLU6()))
        self.features = nn.SequentialCell(*cells)
        head = nn.Dense(self.last_channel, num_classes, Normal(0.01), "zeros")
        self.classifier = nn.SequentialCell(nn.Dropout(p=dropout), head)

    def construct(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Fire(nn.Cell):
    def __init__(self, inplanes, squeeze, expand):
        super().__init__()
        self.inplanes = inplanes
        weights = HeUniform(nonlinearity="relu")
        self.squeeze = nn.Conv2d(inplanes, squeeze, 1, 1, "pad", 0, 1, 1, True, weights, "zeros")
        self.squeeze_activation = nn.ReLU()
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1, 1, "pad", 0, 1, 1, True, weights, "zeros")
        self.expand1x1_activation = nn.ReLU()
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, 1, "pad", 1, 1, 1, True, weights, "zeros")
        self.expand3x3_activation = nn.ReLU()

    def construct(self, x):
        x = self.squeeze_activation(self.squeeze(x))
        parts = self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))
        return ops.cat(parts, 1)


class SqueezeNet(nn.Cell):
    def __init__(self, version="1_0", num_classes=1000, dropout=0.5):
        super().__init__()
        self.num_classes = num_classes
        wide, size, padded = (96, 7, (1, 4, 8)) if version == "1_0" else (64, 3, (1, 3, 5))
        weights = HeUniform(nonlinearity="relu")
        cells, inputs = [nn.Conv2d(3, wide, size, 2, "pad", 0, 1, 1, True, weights, "zeros"), nn.ReLU()], wide
        for place, squeeze in enumerate((0, 16, 16, 32, 32, 48, 48, 64, 64)):
            if squeeze:
                cells.append(Fire(inputs, squeeze, 4 * squeeze))
                inputs = 8 * squeeze
            if place in ((0, 3, 7) if version == "1_0" else (0, 2, 4)):
                cells.append(nn.MaxPool2d(3, 2, "pad", ceil_mode=True))
        self.features = nn.SequentialCell(*cells)
        head = nn.Conv2d(512, num_classes, 1, 1, "pad", 0, 1, 1, True, Normal(0.01), "zeros")
        self.classifier = nn.SequentialCell(nn.Dropout(p=dropout), head, nn.ReLU(), nn.AdaptiveAvgPool2d((1, 1)))

    def construct(self, x):
        return ops.flatten(self.classifier(self.features(x)), start_dim=1)
