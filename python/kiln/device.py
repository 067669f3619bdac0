"""The device "kiln" for eager PyTorch: every operator of generator/ops.yaml, registered with PyTorch's dispatcher.

import kiln.device
kiln.device.register()
x = torch.randn(3, 4, device="kiln")
"""

import os
import pathlib
import types
from typing import Any


def find_library() -> str:
    """Path of libkiln_torch_backend.so: $KILN_TORCH_BACKEND_LIBRARY, or in the build folder of the checkout this file lies in."""
    built = pathlib.Path(__file__).resolve().parents[2] / "build" / "lib" / "libkiln_torch_backend.so"
    for candidate in (os.environ.get("KILN_TORCH_BACKEND_LIBRARY"), built):
        if candidate and os.path.exists(candidate):
            return str(candidate)
    raise FileNotFoundError("libkiln_torch_backend.so is not built; set KILN_TORCH_BACKEND_LIBRARY")


def register() -> None:
    """Makes the device known to this process. Does nothing the second time."""
    import torch

    if hasattr(torch, "kiln"):
        return
    torch.ops.load_library(find_library())
    module: Any = types.ModuleType("torch.kiln")
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.synchronize = lambda device=None: None
    # Random operators draw from the CPU's generator, which seeds and keeps its own state.
    module.manual_seed = module.manual_seed_all = lambda seed: None
    module.get_rng_state = lambda device=None: torch.get_rng_state()
    module.set_rng_state = lambda state, device=None: torch.set_rng_state(state)
    module._is_in_bad_fork = lambda: False
    torch._register_device_module("kiln", module)
