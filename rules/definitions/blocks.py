"""Layers of torchvision's that hold others."""

from mindspore import nn


class SqueezeExcitation(nn.Cell):
    def __init__(self, input_channels, squeeze_channels, activation=nn.ReLU, scale_activation=nn.Sigmoid):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1, has_bias=True)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1, has_bias=True)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def construct(self, x):
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x))))) * x


class Conv2dNormActivation(nn.SequentialCell):
    """The layers that are None are left out."""

    def __init__(
        self, in_channels, out_channels, kernel_size=3, stride=1, padding=None, groups=1,
        norm_layer=nn.BatchNorm2d, activation_layer=nn.ReLU, dilation=1, bias=None,
    ):  # fmt: skip
        padding = (kernel_size - 1) // 2 * dilation if padding is None else padding
        bias = norm_layer is None if bias is None else bias
        conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride, "pad", padding, dilation, groups, bias)
        cells = [conv] if norm_layer is None else [conv, norm_layer(out_channels)]
        super().__init__(*cells, *([] if activation_layer is None else [activation_layer()]))
        self.out_channels = out_channels


class MLP(nn.SequentialCell):
    def __init__(
        self, in_channels, hidden_channels, norm_layer=None, activation_layer=nn.ReLU, bias=True, dropout=0.0,
    ):  # fmt: skip
        cells = []
        for hidden in hidden_channels[:-1]:
            cells.append(nn.Dense(in_channels, hidden, has_bias=bias))
            cells += [] if norm_layer is None else [norm_layer(hidden)]
            cells += [activation_layer(), nn.Dropout(p=dropout)]
            in_channels = hidden
        last = nn.Dense(in_channels, hidden_channels[-1], has_bias=bias)
        super().__init__(*cells, last, nn.Dropout(p=dropout))
