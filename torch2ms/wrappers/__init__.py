"""What is written plainly before anything is planned: the ways in which people write training, and wrappers around it.

`opts = [Adam(net.parameters()) for net in nets]` is one optimizer after the other, `(loss := f(x)).backward()` a loss
with a name; `accelerator.backward(loss)` is `loss.backward()` as long as one process runs in float32. Written that way
the program needs no rules of its own: ledger, regions and forms see plain PyTorch. Lines of findings stay those of the
source.

Each module is a pass, which its first line shows by an example. They stand in folders by what they write plainly, in
the order of `order`: `spellings`, `networks`, `tensors`, `objects`, `containers`, `steps`; then parts of steps stand
where they are called; then `gradients`, `blocks`, `names`, `loops`, `stores`, `functions`. `trainers` takes wrappers of
training off. `passes` and `editing.suites` are what passes are made of; `boxes` is asked by several of them.
"""

from __future__ import annotations

from torch2ms.analysis.infer import infer, rewritten
from torch2ms.analysis.program.project import Project
from torch2ms.inlining import handed_on, in_parts, inlined, leaf_makers, whole_steps
from torch2ms.wrappers import order
from torch2ms.wrappers.containers.spread import spread
from torch2ms.wrappers.names.named_items import named_networks
from torch2ms.wrappers.names.perhaps_twice import perhaps_twice
from torch2ms.wrappers.passes import Pass
from torch2ms.wrappers.steps.ascents import ascents
from torch2ms.wrappers.steps.own_steps import around_closures

DICTS = 3  # one after the other: schedulers of optimizers of networks


def understood(project: Project) -> Project:
    """The project with its values inferred, and written plainly.

    Each pass writes one of the ways in which people train plainly; its module says which, `order` in which order. A
    later one reads what those before it have made.
    """
    infer(project)
    return understood_from_steps_on(understood_up_to_steps(project))


def understood_up_to_steps(project: Project) -> Project:
    """The passes before parts of training steps are written out where they are called; the values are inferred."""
    project = _through(project, *order.SPELLINGS, *order.NETWORKS, *order.TENSORS, *order.OBJECTS)
    for _ in range(DICTS):
        if not (plain := spread(project)):
            break
        project = rewritten(project, plain)
    project = _through(project, *order.CONTAINERS, *order.STEPS)
    project = inlined(inlined(project, ascents), leaf_makers)
    return inlined(_through(project, around_closures), handed_on)


def understood_from_steps_on(project: Project) -> Project:
    """These, where that is wanted, and the passes after. Nothing to write out where it is wanted: no pass is made."""
    if project.written_out:
        wanted = {m.name: m.tree for m in project.modules.values() if m.path in project.written_out}
        project = whole_steps(project)
        if all(project.modules[name].tree is tree for name, tree in wanted.items()):
            project.written_out = frozenset()
            return project
    project = _through(project, *order.GRADIENTS, *order.BLOCKS, *order.NAMES)
    project = inlined(_through(project, *order.LOOPS, *order.STORES, *order.FUNCTIONS))
    return _through(project, named_networks, perhaps_twice)


def _through(project: Project, *passes: Pass) -> Project:
    for each in passes:
        if plain := each(project):
            project = rewritten(project, plain)
    return project


__all__ = ["in_parts", "understood", "understood_from_steps_on", "understood_up_to_steps"]
