"""Libraries that models load: Kiln's, which lie inside a wheel, and NVIDIA's of their packages on PyPI."""

import os
import pathlib
import sys

_NAMES = {"KILN_COLLECTIVES_LIBRARY": "libkiln_collectives.so"}
_GPU_NAMES = {"KILN_CUBLAS_LIBRARY": "libkiln_cublas.so", "KILN_CUDNN_LIBRARY": "libkiln_cudnn.so"}
_PACKAGES = {
    "KILN_CUBLASLT_LIBRARY": ("cu13/lib/libcublasLt.so.13", "cublas/lib/libcublasLt.so.12"),
    "KILN_LIBCUDNN": ("cudnn/lib/libcudnn.so.9",),
    "KILN_NCCL_LIBRARY": ("nccl/lib/libnccl.so.2",),
}


def point_out(model: str, on_gpu: bool) -> None:
    """Says in the environment where the libraries are that the loader does not find, for the model of this path. What a variable says stays."""
    folders = (pathlib.Path(model).parent, pathlib.Path(__file__).resolve().parent / "lib")
    for variable, name in (_NAMES | _GPU_NAMES if on_gpu else _NAMES).items():
        _offer(variable, [folder / name for folder in folders])
    for variable, names in _PACKAGES.items() if on_gpu else ():
        _offer(variable, [pathlib.Path(folder, "nvidia", name) for folder in sys.path for name in names])


def _offer(variable: str, candidates: list[pathlib.Path]) -> None:
    if not os.environ.get(variable):
        found = next((path for path in candidates if path.is_file()), None)
        if found is not None:
            os.environ[variable] = str(found)
