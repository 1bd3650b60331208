"""Which pass comes after which, in groups by what they write plainly; the module of each says how people write it."""

from __future__ import annotations

from torch2ms.stateless import as_calls, without_state
from torch2ms.wrappers.added import added
from torch2ms.wrappers.alike import alike
from torch2ms.wrappers.asked import asked, recording, unkept
from torch2ms.wrappers.begun import begun
from torch2ms.wrappers.bound_methods import called_by_name
from torch2ms.wrappers.cast_inside import cast_inside
from torch2ms.wrappers.cleared_in_part import cleared_in_part
from torch2ms.wrappers.clipped import clipped
from torch2ms.wrappers.closures import without_closures
from torch2ms.wrappers.components import components
from torch2ms.wrappers.conditional import conditional
from torch2ms.wrappers.constructors import constructors
from torch2ms.wrappers.contexts import parted
from torch2ms.wrappers.copied import copied
from torch2ms.wrappers.decided import decided
from torch2ms.wrappers.defaults import defaults
from torch2ms.wrappers.each import each_alone
from torch2ms.wrappers.exchanged import exchanged
from torch2ms.wrappers.families import branched
from torch2ms.wrappers.filled import filled
from torch2ms.wrappers.filled_leaves import filled_leaves
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
from torch2ms.wrappers.items_by_attribute import items_by_attribute
from torch2ms.wrappers.kept_graphs import kept_graphs
from torch2ms.wrappers.keyed import keyed
from torch2ms.wrappers.layers import as_modules
from torch2ms.wrappers.left_between import left_between
from torch2ms.wrappers.left_out import left_out
from torch2ms.wrappers.levelled import levelled
from torch2ms.wrappers.listed import listed
from torch2ms.wrappers.made_ahead import made_ahead
from torch2ms.wrappers.methods_given import parameters_given
from torch2ms.wrappers.named_again import named_again
from torch2ms.wrappers.named_items import named_items
from torch2ms.wrappers.named_outputs import named_outputs
from torch2ms.wrappers.named_settings import settings_written_out
from torch2ms.wrappers.numbered import numbered
from torch2ms.wrappers.on_cuda import switched_off
from torch2ms.wrappers.one_output import one_output
from torch2ms.wrappers.only_network import only_networks
from torch2ms.wrappers.opened import opened
from torch2ms.wrappers.options import without_options
from torch2ms.wrappers.outdated import outdated
from torch2ms.wrappers.overwritten import overwritten
from torch2ms.wrappers.own_names import renewed
from torch2ms.wrappers.own_steps import own_steps
from torch2ms.wrappers.pairs import paired
from torch2ms.wrappers.partials import called_out
from torch2ms.wrappers.passes import Pass
from torch2ms.wrappers.picked_items import picked_items
from torch2ms.wrappers.precisions import precisions
from torch2ms.wrappers.rearranged import rearranged
from torch2ms.wrappers.rebound import told_apart
from torch2ms.wrappers.reexported import reexported
from torch2ms.wrappers.regrouped import regrouped
from torch2ms.wrappers.retained import retained
from torch2ms.wrappers.run_early import run_early
from torch2ms.wrappers.saturated import saturated
from torch2ms.wrappers.selfless import renamed
from torch2ms.wrappers.spelled import aliased, spelled
from torch2ms.wrappers.starred import starred
from torch2ms.wrappers.static import static
from torch2ms.wrappers.stepped import stepped
from torch2ms.wrappers.stored import stored
from torch2ms.wrappers.stretches import stretches
from torch2ms.wrappers.summed import summed
from torch2ms.wrappers.sunk import sunk
from torch2ms.wrappers.supplied import supplied
from torch2ms.wrappers.switched import switched
from torch2ms.wrappers.taken import out_of_the_way
from torch2ms.wrappers.taken_over import taken_over
from torch2ms.wrappers.ternary import ternary
from torch2ms.wrappers.trainers.unwrap import unwrapped
from torch2ms.wrappers.turns import written_out
from torch2ms.wrappers.unbased import unbased
from torch2ms.wrappers.unboxed import unboxed
from torch2ms.wrappers.unrated import unrated
from torch2ms.wrappers.unroll import unrolled
from torch2ms.wrappers.walrus import bound_before
from torch2ms.wrappers.windows import windowed
from torch2ms.wrappers.written_back import written_back

# names and calls of torch as torch spells them, and calls that show what they give
SPELLINGS: tuple[Pass, ...] = (
    supplied,  # before others import what a stand-in would have been
    reexported,
    rearranged,
    cast_inside,
    starred,
    static,
    in_the_call,  # before functions that change their tensor are methods
    settings_written_out,
    spelled,
    outdated,
    filled_leaves,
    aliased,
    paired,
    called_out,
    without_options,
    bound_before,
    written_back,
    exchanged,
    called_by_name,
    parameters_given,
)

# parameters, layers and networks as they are usually made
NETWORKS: tuple[Pass, ...] = (
    only_networks,
    saturated,
    unbased,
    defaults,
    gathered_first,
    as_modules,  # plain layers
    constructors,
    told_inside,
    begun,
    run_early,
)

# tensors whose gradients are read or watched
TENSORS: tuple[Pass, ...] = (named_again, hooked, retained, one_output)

# objects around training, and statements that hide a step
OBJECTS: tuple[Pass, ...] = (unwrapped, as_loops, flagged_together, stepped)

# networks and optimizers that lists and dicts hold: each has a name of its own
CONTAINERS: tuple[Pass, ...] = (items_by_attribute, numbered, picked_items, unboxed, opened, listed)

# what a step is asked and given
STEPS: tuple[Pass, ...] = (windowed, stored, asked, recording, without_closures, own_steps, unrated)

# from here on: parts of steps stand where they are called

# what is differentiated, and what is asked of gradients
GRADIENTS: tuple[Pass, ...] = (
    unkept,
    components,
    named_outputs,
    left_out,
    added,  # before what asks for zeros is taken to be answered
    decided,
    alike,
    out_of_the_way,  # attributes whose names nn.Cell has for something else
)

# blocks of a gradient mode or a precision, and branches around them
BLOCKS: tuple[Pass, ...] = (
    stretches,
    parted,
    switched,
    conditional,
    left_between,
    precisions,
    ternary,
    levelled,
    sunk,
    switched_off,
    begins_anew,
    made_ahead,
)

# one name for one thing
NAMES: tuple[Pass, ...] = (
    told_apart,
    renewed,
    copied,
    regrouped,
    direct,
    keyed,
    named_items,
    item_inputs,
)

# loops over losses, optimizers and networks, written out
LOOPS: tuple[Pass, ...] = (summed, unrolled, written_out)

# statements that store gradients, each of them one that does so and no more
STORES: tuple[Pass, ...] = (kept_graphs, each_alone, cleared_in_part, taken_over, added, overwritten, filled, clipped)

# functions that MindSpore can compile or differentiate
FUNCTIONS: tuple[Pass, ...] = (renamed, flagged, looped, without_state, as_calls, branched)
