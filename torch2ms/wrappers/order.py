"""Which pass comes after which, in groups by what they write plainly; the module of each says how people write it."""

from __future__ import annotations

from torch2ms.inlining.managed import managed
from torch2ms.stateless import as_calls, without_state
from torch2ms.wrappers.blocks.conditional import conditional
from torch2ms.wrappers.blocks.contexts import parted
from torch2ms.wrappers.blocks.first_turn import begins_anew
from torch2ms.wrappers.blocks.left_between import left_between
from torch2ms.wrappers.blocks.levelled import levelled
from torch2ms.wrappers.blocks.made_ahead import made_ahead
from torch2ms.wrappers.blocks.on_cuda import switched_off
from torch2ms.wrappers.blocks.precisions import precisions
from torch2ms.wrappers.blocks.stretches import stretches
from torch2ms.wrappers.blocks.sunk import sunk
from torch2ms.wrappers.blocks.switched import switched
from torch2ms.wrappers.blocks.ternary import ternary
from torch2ms.wrappers.containers.items_by_attribute import items_by_attribute
from torch2ms.wrappers.containers.listed import listed
from torch2ms.wrappers.containers.numbered import numbered
from torch2ms.wrappers.containers.opened import opened
from torch2ms.wrappers.containers.picked_items import picked_items
from torch2ms.wrappers.containers.unboxed import unboxed
from torch2ms.wrappers.functions.families import branched
from torch2ms.wrappers.functions.flags import flagged
from torch2ms.wrappers.functions.gathered import looped
from torch2ms.wrappers.functions.selfless import renamed
from torch2ms.wrappers.gradients.added import added
from torch2ms.wrappers.gradients.alike import alike
from torch2ms.wrappers.gradients.components import components
from torch2ms.wrappers.gradients.decided import decided
from torch2ms.wrappers.gradients.left_out import left_out
from torch2ms.wrappers.gradients.named_outputs import named_outputs
from torch2ms.wrappers.gradients.taken import out_of_the_way
from torch2ms.wrappers.loops.summed import summed
from torch2ms.wrappers.loops.turns import written_out
from torch2ms.wrappers.loops.unroll import unrolled
from torch2ms.wrappers.names.copied import copied
from torch2ms.wrappers.names.given_back import given_back
from torch2ms.wrappers.names.groups import direct
from torch2ms.wrappers.names.item_inputs import item_inputs
from torch2ms.wrappers.names.keyed import keyed
from torch2ms.wrappers.names.named_items import named_items
from torch2ms.wrappers.names.own_names import renewed
from torch2ms.wrappers.names.rebound import told_apart
from torch2ms.wrappers.names.regrouped import regrouped
from torch2ms.wrappers.networks.begun import begun
from torch2ms.wrappers.networks.constructors import constructors
from torch2ms.wrappers.networks.defaults import defaults
from torch2ms.wrappers.networks.grown_lists import gathered_first
from torch2ms.wrappers.networks.inner_modes import told_inside
from torch2ms.wrappers.networks.layers import as_modules
from torch2ms.wrappers.networks.only_network import only_networks
from torch2ms.wrappers.networks.own_weights import own_weights
from torch2ms.wrappers.networks.run_early import run_early
from torch2ms.wrappers.networks.saturated import saturated
from torch2ms.wrappers.networks.unbased import unbased
from torch2ms.wrappers.objects.delegated import delegated
from torch2ms.wrappers.objects.flagged_together import flagged_together
from torch2ms.wrappers.objects.for_effect import as_loops
from torch2ms.wrappers.objects.stepped import stepped
from torch2ms.wrappers.passes import Pass
from torch2ms.wrappers.spellings.bound_methods import called_by_name
from torch2ms.wrappers.spellings.cast_inside import cast_inside
from torch2ms.wrappers.spellings.chosen_functions import chosen_functions
from torch2ms.wrappers.spellings.exchanged import exchanged
from torch2ms.wrappers.spellings.filled_leaves import filled_leaves
from torch2ms.wrappers.spellings.in_the_call import in_the_call
from torch2ms.wrappers.spellings.iterator_lengths import iterator_lengths
from torch2ms.wrappers.spellings.methods_given import parameters_given
from torch2ms.wrappers.spellings.named_lambdas import named_lambdas
from torch2ms.wrappers.spellings.named_settings import settings_written_out
from torch2ms.wrappers.spellings.options import without_options
from torch2ms.wrappers.spellings.outdated import outdated
from torch2ms.wrappers.spellings.pairs import paired
from torch2ms.wrappers.spellings.partials import called_out
from torch2ms.wrappers.spellings.rearranged import rearranged
from torch2ms.wrappers.spellings.reexported import reexported
from torch2ms.wrappers.spellings.spelled import aliased, spelled
from torch2ms.wrappers.spellings.starred import starred
from torch2ms.wrappers.spellings.static import static
from torch2ms.wrappers.spellings.supplied import supplied
from torch2ms.wrappers.spellings.walrus import bound_before
from torch2ms.wrappers.spellings.written_back import written_back
from torch2ms.wrappers.steps.asked import asked, recording, unkept
from torch2ms.wrappers.steps.closures import without_closures
from torch2ms.wrappers.steps.own_steps import own_steps
from torch2ms.wrappers.steps.stored import stored
from torch2ms.wrappers.steps.unrated import unrated
from torch2ms.wrappers.steps.windows import windowed
from torch2ms.wrappers.stores.cleared_in_part import cleared_in_part
from torch2ms.wrappers.stores.clipped import clipped
from torch2ms.wrappers.stores.each import each_alone
from torch2ms.wrappers.stores.filled import filled
from torch2ms.wrappers.stores.kept_graphs import kept_graphs
from torch2ms.wrappers.stores.overwritten import overwritten
from torch2ms.wrappers.stores.taken_over import taken_over
from torch2ms.wrappers.tensors.hooked import hooked
from torch2ms.wrappers.tensors.named_again import named_again
from torch2ms.wrappers.tensors.one_output import one_output
from torch2ms.wrappers.tensors.retained import retained
from torch2ms.wrappers.trainers.unwrap import unwrapped

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
    named_lambdas,
    chosen_functions,
    iterator_lengths,
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
    own_weights,
)

# tensors whose gradients are read or watched
TENSORS: tuple[Pass, ...] = (named_again, hooked, retained, one_output)

# objects around training, and statements that hide a step
OBJECTS: tuple[Pass, ...] = (unwrapped, delegated, managed, as_loops, flagged_together, stepped)

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
    given_back,  # before they are told apart
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
