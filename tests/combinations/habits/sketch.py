"""What is drawn of a program before it is written down: the parts that habits add to."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.combinations.drawing import Drawn, block, under

__all__ = ["Sketch", "block", "under"]


@dataclass
class Sketch:
    """The parts of a program. What is made once is `net`, `crit`, `opt` and so on; a batch is `i, x, y`."""

    drawn: Drawn
    imports: list[str] = field(default_factory=list)
    defined: list[str] = field(default_factory=list)  # classes and functions of the module
    made: list[str] = field(default_factory=list)  # networks, criteria
    opt: str = "torch.optim.SGD(net.parameters(), lr=0.1)"
    setup: list[str] = field(default_factory=list)  # what needs the optimizer
    epoch_start: list[str] = field(default_factory=list)
    forward: str = "out = net(x)"
    predicts: str = "{net}({x})"  # what is compared with the labels
    loss: str = "loss = F.cross_entropy(out, y)"
    backward: str = "loss.backward()"
    between: list[str] = field(default_factory=list)
    step: str = "opt.step()"
    after: list[str] = field(default_factory=list)
    use: list[str] = field(default_factory=list)
    epoch_end: list[str] = field(default_factory=list)
    end: list[str] = field(default_factory=list)

    def chance(self, of: float) -> bool:
        return self.drawn.random.random() < of

    def one_of(self, *texts: str) -> str:
        return self.drawn.random.choice(texts)

    def predicted(self, x: str, of: str = "net") -> str:
        return self.predicts.format(net=of, x=x)

    def define(self, text: str) -> None:
        """A class or function of the module, once."""
        if text.strip() not in self.defined:
            self.defined.append(text.strip())

    def needs(self, *lines: str) -> None:
        """Imports."""
        self.imports += [line for line in lines if line not in self.imports]
