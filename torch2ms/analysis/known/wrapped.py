"""The classes of objects that wrap training, by their qualified names."""

from __future__ import annotations

FAMILIES = {
    "accelerate.Accelerator": "accelerate",
    "accelerate.accelerator.Accelerator": "accelerate",
    "accelerate.PartialState": "accelerate",
    "accelerate.state.PartialState": "accelerate",
    "accelerate.state.AcceleratorState": "accelerate",
    "lightning.Fabric": "fabric",
    "lightning.fabric.Fabric": "fabric",
    "lightning.fabric.fabric.Fabric": "fabric",
    "lightning_fabric.Fabric": "fabric",
    "lightning_fabric.fabric.Fabric": "fabric",
}
