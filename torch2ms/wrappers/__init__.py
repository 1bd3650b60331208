"""What is written plainly before anything is planned: wrappers around training, and loops over optimizers.

`accelerator.prepare`, `fabric.setup`, `amp.initialize` and their kin give back what they were given as long as one
process runs in float32; `accelerator.backward(loss)` is `loss.backward()`. Written that way the program needs no rules
of its own: ledger, regions and forms see plain PyTorch. Lines of findings stay those of the source.
"""

from __future__ import annotations

from torch2ms.analysis.infer import infer
from torch2ms.analysis.program.project import Plain, Project
from torch2ms.inlining import ascents, handed_on, in_parts, inlined, whole_steps
from torch2ms.stateless import as_calls, without_state
from torch2ms.wrappers.added import added
from torch2ms.wrappers.alike import alike
from torch2ms.wrappers.asked import asked, recording, unkept
from torch2ms.wrappers.begun import begun
from torch2ms.wrappers.bound_methods import called_by_name
from torch2ms.wrappers.cast_inside import cast_inside
from torch2ms.wrappers.clipped import clipped
from torch2ms.wrappers.closures import without_closures
from torch2ms.wrappers.components import components
from torch2ms.wrappers.conditional import conditional
from torch2ms.wrappers.constructors import constructors
from torch2ms.wrappers.contexts import parted
from torch2ms.wrappers.copied import copied
from torch2ms.wrappers.decided import decided
from torch2ms.wrappers.defaults import defaults
from torch2ms.wrappers.distributed import mentioned
from torch2ms.wrappers.each import each_alone
from torch2ms.wrappers.families import branched
from torch2ms.wrappers.filled import filled
from torch2ms.wrappers.first_turn import begins_anew
from torch2ms.wrappers.flagged_together import flagged_together
from torch2ms.wrappers.flags import flagged
from torch2ms.wrappers.for_effect import as_loops
from torch2ms.wrappers.gathered import looped
from torch2ms.wrappers.groups import direct
from torch2ms.wrappers.grown_lists import gathered_first
from torch2ms.wrappers.hooked import hooked
from torch2ms.wrappers.in_the_call import in_the_call
from torch2ms.wrappers.inner_modes import told_inside
from torch2ms.wrappers.item_inputs import item_inputs
from torch2ms.wrappers.kept_graphs import kept_graphs
from torch2ms.wrappers.keyed import keyed
from torch2ms.wrappers.layers import as_modules
from torch2ms.wrappers.left_between import left_between
from torch2ms.wrappers.left_out import left_out
from torch2ms.wrappers.levelled import levelled
from torch2ms.wrappers.listed import listed
from torch2ms.wrappers.methods_given import parameters_given
from torch2ms.wrappers.named_again import named_again
from torch2ms.wrappers.named_items import named_items
from torch2ms.wrappers.named_outputs import named_outputs
from torch2ms.wrappers.numbered import numbered
from torch2ms.wrappers.objects import wraps
from torch2ms.wrappers.on_cuda import switched_off
from torch2ms.wrappers.one_output import one_output
from torch2ms.wrappers.only_network import only_networks
from torch2ms.wrappers.opened import opened
from torch2ms.wrappers.options import without_options
from torch2ms.wrappers.outdated import outdated
from torch2ms.wrappers.overwritten import overwritten
from torch2ms.wrappers.own_names import renewed
from torch2ms.wrappers.own_steps import around_closures, own_steps
from torch2ms.wrappers.pairs import paired
from torch2ms.wrappers.partials import called_out
from torch2ms.wrappers.perhaps_twice import perhaps_twice
from torch2ms.wrappers.picked_items import picked_items
from torch2ms.wrappers.rearranged import rearranged
from torch2ms.wrappers.rebound import told_apart
from torch2ms.wrappers.reexported import reexported
from torch2ms.wrappers.regrouped import regrouped
from torch2ms.wrappers.retained import retained
from torch2ms.wrappers.run_early import run_early
from torch2ms.wrappers.saturated import saturated
from torch2ms.wrappers.selfless import renamed
from torch2ms.wrappers.spelled import aliased, spelled
from torch2ms.wrappers.spread import spread
from torch2ms.wrappers.starred import starred
from torch2ms.wrappers.stepped import stepped
from torch2ms.wrappers.stored import stored
from torch2ms.wrappers.stretches import stretches
from torch2ms.wrappers.summed import summed
from torch2ms.wrappers.sunk import sunk
from torch2ms.wrappers.supplied import supplied
from torch2ms.wrappers.switched import switched
from torch2ms.wrappers.taken import out_of_the_way
from torch2ms.wrappers.ternary import ternary
from torch2ms.wrappers.turns import written_out
from torch2ms.wrappers.unbased import unbased
from torch2ms.wrappers.unboxed import unboxed
from torch2ms.wrappers.unrated import unrated
from torch2ms.wrappers.unroll import unrolled
from torch2ms.wrappers.unwrap import unwrapped
from torch2ms.wrappers.walrus import bound_before
from torch2ms.wrappers.windows import windowed
from torch2ms.wrappers.written_back import written_back


def understood(project: Project) -> Project:
    """The project with its values inferred, and written plainly.

    Each pass writes one of the ways in which people train plainly; its module says which. A later one reads what those
    before it have made.
    """
    infer(project)
    return understood_from_steps_on(understood_up_to_steps(project))


def understood_up_to_steps(project: Project) -> Project:
    """The passes before parts of training steps are written out where they are called; the values are inferred."""
    project = _with(project, reexported(project))
    project = _with(project, supplied(project))
    project = _with(project, rearranged(project))
    project = _with(project, cast_inside(project))
    project = _with(project, starred(project))
    project = _with(project, in_the_call(project))  # before functions that change their tensor are methods
    project = _with(project, spelled(project))
    project = _with(project, outdated(project))
    project = _with(project, aliased(project))
    project = _with(project, paired(project))
    project = _with(project, called_out(project))
    project = _with(project, without_options(project))
    project = _with(project, bound_before(project))
    project = _with(project, written_back(project))
    project = _with(project, called_by_name(project))
    project = _with(project, parameters_given(project))
    project = _with(project, only_networks(project))
    project = _with(project, saturated(project))
    project = _with(project, unbased(project))
    project = _with(project, defaults(project))
    project = _with(project, gathered_first(project))
    project = _with(project, as_modules(project))  # plain layers
    project = _with(project, constructors(project))
    project = _with(project, told_inside(project))
    project = _with(project, begun(project))
    project = _with(project, run_early(project))
    project = _with(project, named_again(project))
    project = _with(project, hooked(project))
    project = _with(project, retained(project))
    project = _with(project, one_output(project))
    wrapped = [m for m in project.modules.values() if not m.uses_mindspore and (wraps(m) or mentioned(m))]
    project = _with(project, unwrapped(project, wrapped) if wrapped else {})
    project = _with(project, as_loops(project))
    project = _with(project, flagged_together(project))
    project = _with(project, stepped(project))
    for _ in range(3):  # one dict after the other: schedulers of optimizers of networks
        if not (plain := spread(project)):
            break
        project = _with(project, plain)
    project = _with(project, numbered(project))
    project = _with(project, picked_items(project))
    project = _with(project, unboxed(project))
    project = _with(project, opened(project))
    project = _with(project, listed(project))
    project = _with(project, windowed(project))
    project = _with(project, stored(project))
    project = _with(project, asked(project))
    project = _with(project, recording(project))
    project = _with(project, without_closures(project))
    project = _with(project, own_steps(project))
    project = _with(project, unrated(project))
    project = inlined(project, ascents)
    project = _with(project, around_closures(project))
    return inlined(project, handed_on)


def understood_from_steps_on(project: Project) -> Project:
    """These, where that is wanted, and the passes after. Nothing to write out where it is wanted: no pass is made."""
    if project.written_out:
        wanted = {m.name: m.tree for m in project.modules.values() if m.path in project.written_out}
        project = whole_steps(project)
        if all(project.modules[name].tree is tree for name, tree in wanted.items()):
            project.written_out = frozenset()
            return project
    project = _with(project, unkept(project))
    project = _with(project, components(project))
    project = _with(project, named_outputs(project))
    project = _with(project, left_out(project))
    project = _with(project, added(project))  # before what asks for zeros is taken to be answered
    project = _with(project, decided(project))
    project = _with(project, alike(project))
    project = _with(project, out_of_the_way(project))
    project = _with(project, stretches(project))
    project = _with(project, parted(project))
    project = _with(project, switched(project))
    project = _with(project, conditional(project))
    project = _with(project, left_between(project))
    project = _with(project, ternary(project))
    project = _with(project, levelled(project))
    project = _with(project, sunk(project))
    project = _with(project, switched_off(project))
    project = _with(project, begins_anew(project))
    project = _with(project, told_apart(project))
    project = _with(project, renewed(project))
    project = _with(project, copied(project))
    project = _with(project, regrouped(project))
    project = _with(project, direct(project))
    project = _with(project, keyed(project))
    project = _with(project, named_items(project))
    project = _with(project, item_inputs(project))
    project = _with(project, summed(project))
    project = _with(project, unrolled(project))
    project = _with(project, written_out(project))
    project = _with(project, kept_graphs(project))
    project = _with(project, each_alone(project))
    project = _with(project, added(project))
    project = _with(project, overwritten(project))
    project = _with(project, filled(project))
    project = _with(project, clipped(project))
    project = _with(project, renamed(project))
    project = _with(project, flagged(project))
    project = _with(project, looped(project))
    project = _with(project, without_state(project))
    project = _with(project, as_calls(project))
    project = inlined(_with(project, branched(project)))
    return _with(project, perhaps_twice(project))


def _with(project: Project, plain: dict[str, Plain]) -> Project:
    """The project with other trees for some of its modules."""
    if not plain:
        return project
    made = project.rewritten(plain)
    infer(made)
    return made


__all__ = ["in_parts", "understood", "understood_from_steps_on", "understood_up_to_steps"]
