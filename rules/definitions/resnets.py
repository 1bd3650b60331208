"""The residual networks of torchvision: its names of layers, and weights that are drawn as it draws them."""

from mindspore import nn, ops
from mindspore.common.initializer import HeNormal


def conv_of_network(inputs, outputs, size, stride=1, groups=1):
    weights = HeNormal(mode="fan_out", nonlinearity="relu")
    return nn.Conv2d(inputs, outputs, size, stride, "pad", size // 2, group=groups, weight_init=weights)


class BasicBlock(nn.Cell):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, last="ones"):
        super().__init__()
        self.conv1 = conv_of_network(inplanes, planes, 3, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU()
        self.conv2 = conv_of_network(planes, planes, 3)
        self.bn2 = nn.BatchNorm2d(planes, gamma_init=last)
        self.downsample = downsample
        self.stride = stride

    def construct(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + identity)


class Bottleneck(nn.Cell):
    expansion = 4

    def __init__(self, inplanes, planes, stride=1, downsample=None, groups=1, base_width=64, last="ones"):
        super().__init__()
        width = planes * base_width // 64 * groups
        self.conv1 = conv_of_network(inplanes, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv_of_network(width, width, 3, stride, groups)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv_of_network(width, planes * self.expansion, 1)
        self.bn3 = nn.BatchNorm2d(planes * self.expansion, gamma_init=last)
        self.relu = nn.ReLU()
        self.downsample = downsample
        self.stride = stride

    def construct(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + identity)


class ResNet(nn.Cell):
    def __init__(
        self, block, layers, num_classes=1000, zero_init_residual=False, groups=1, width_per_group=64
    ):  # fmt: skip
        super().__init__()
        self.inplanes = 64
        self.groups, self.base_width = groups, width_per_group
        self.last = "zeros" if zero_init_residual else "ones"
        self.conv1 = conv_of_network(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, "pad", 1)
        self.layer1 = self.blocks(block, 64, layers[0])
        self.layer2 = self.blocks(block, 128, layers[1], 2)
        self.layer3 = self.blocks(block, 256, layers[2], 2)
        self.layer4 = self.blocks(block, 512, layers[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Dense(512 * block.expansion, num_classes)

    def blocks(self, block, planes, count, stride=1):
        outputs = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != outputs:
            downsample = nn.SequentialCell(conv_of_network(self.inplanes, outputs, 1, stride), nn.BatchNorm2d(outputs))
        options = (self.groups, self.base_width, self.last)
        cells = [block(self.inplanes, planes, stride, downsample, *options)]
        cells += [block(outputs, planes, 1, None, *options) for _ in range(1, count)]
        self.inplanes = outputs
        return nn.SequentialCell(*cells)

    def construct(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(ops.flatten(self.avgpool(x), start_dim=1))
