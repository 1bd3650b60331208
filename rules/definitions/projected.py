"""An LSTM whose outputs are projected to another size before they are fed back."""

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import Uniform, initializer


class ProjectedLSTM(nn.Cell):
    def __init__(self, input_size, hidden_size, proj_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False):
        super().__init__()
        self.input_size, self.hidden_size, self.proj_size = input_size, hidden_size, proj_size
        self.num_layers, self.batch_first, self.dropout = num_layers, batch_first, dropout
        self.bidirectional = bidirectional
        self.ends = [f"l{n}{end}" for n in range(num_layers) for end in ("", "_reverse")[: 1 + bidirectional]]
        for place, end in enumerate(self.ends):
            width = proj_size * (1 + bidirectional) if place > bidirectional else input_size
            shapes = {"weight_ih": (4 * hidden_size, width), "weight_hh": (4 * hidden_size, proj_size)}
            if bias:
                shapes |= {"bias_ih": (4 * hidden_size,), "bias_hh": (4 * hidden_size,)}
            shapes["weight_hr"] = (proj_size, hidden_size)
            for name, shape in shapes.items():
                setattr(self, f"{name}_{end}", ms.Parameter(initializer(Uniform(hidden_size**-0.5), shape)))

    def run(self, x, end, output, memory, lengths):
        """One layer in one direction over all steps."""
        into, back, down = (getattr(self, f"weight_{name}_{end}") for name in ("ih", "hh", "hr"))
        bias = getattr(self, f"bias_ih_{end}", 0.0) + getattr(self, f"bias_hh_{end}", 0.0)
        outputs = []
        places = range(x.shape[0])
        for place in reversed(places) if end.endswith("_reverse") else places:
            before = output, memory
            gates = ops.matmul(x[place], into.T) + ops.matmul(output, back.T) + bias
            entry, forget, change, exit = ops.chunk(gates, 4, -1)
            memory = ops.sigmoid(forget) * memory + ops.sigmoid(entry) * ops.tanh(change)
            output = ops.matmul(ops.sigmoid(exit) * ops.tanh(memory), down.T)
            given = output
            if lengths is not None:  # of sequences that have ended, the states stay
                there = (place < lengths).expand_dims(1)
                output, memory = ops.where(there, output, before[0]), ops.where(there, memory, before[1])
                given = ops.where(there, output, ops.zeros_like(output))
            outputs.append(given)
        return ops.stack(outputs[::-1] if end.endswith("_reverse") else outputs), output, memory

    def construct(self, x, hx=None, seq_length=None):
        x = x.swapaxes(0, 1) if self.batch_first else x
        if hx is None:
            hx = [ops.zeros((len(self.ends), x.shape[1], size)) for size in (self.proj_size, self.hidden_size)]
        last, memories = [], []
        ways = 1 + self.bidirectional
        for layer in range(self.num_layers):
            parts = []
            for place in range(layer * ways, (layer + 1) * ways):
                part, output, memory = self.run(x, self.ends[place], hx[0][place], hx[1][place], seq_length)
                parts.append(part)
                last.append(output)
                memories.append(memory)
            x = ops.cat(parts, -1) if len(parts) > 1 else parts[0]
            if self.training and self.dropout and layer < self.num_layers - 1:
                x = ops.dropout(x, self.dropout)
        return x.swapaxes(0, 1) if self.batch_first else x, (ops.stack(last), ops.stack(memories))
