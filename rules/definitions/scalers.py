"""What a scaler of gradients has to remember, under torch's names."""

import mindspore as ms
from mindspore import ops


def scaler_state(scaler):
    """The state of a scaler; one that is switched off has none."""
    if not isinstance(scaler, ms.amp.DynamicLossScaler):
        return {}
    return {
        "scale": scaler.scale_value.item(),
        "growth_factor": float(scaler.scale_factor),
        "backoff_factor": 1.0 / scaler.scale_factor,
        "growth_interval": scaler.scale_window,
        "_growth_tracker": scaler.counter.item(),
    }


def load_scaler_state(scaler, state):
    if isinstance(scaler, ms.amp.DynamicLossScaler):
        ops.assign(scaler.scale_value, float(state["scale"]))
        ops.assign(scaler.counter, int(state["_growth_tracker"]))
        scaler.scale_factor, scaler.scale_window = int(state["growth_factor"]), int(state["growth_interval"])
