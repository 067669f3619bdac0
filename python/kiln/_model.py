"""Loading a compiled model, and its sessions."""

import ctypes as C
import json
import os
from collections.abc import Sequence
from typing import Any

from . import _abi, _call, _libraries
from ._entry import Entry, KilnError

Path = str | os.PathLike[str]


class Model(Entry):
    """A compiled model. Calls may come from many threads at once, and release the interpreter's lock.

    `inputs`, `outputs`, `constants` and `symbols` describe it: see `kiln_model_info` in include/kiln-c/model.h. A model of
    several programs has the names of these in `entries`, and sessions run them; called by itself it is its program `forward` or `model`."""

    def __init__(self, path: Path, threads: int = 0, weights: Path | None = None, device: int = 0) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._handle = C.c_void_p()
        self._folder: Any = None  # a temporary one that the file is in
        try:
            library = _abi.open_library(self.path)
        except (OSError, AttributeError) as error:
            raise KilnError(1, f"{self.path}: not a compiled model: {error}") from None
        version = library.kiln_abi_version()
        if version not in (1, 2):
            raise KilnError(3, f"{self.path}: ABI version {version}, this package reads 1 and 2")
        self.info: dict[str, Any] = json.loads(library.kiln_model_info())
        self.constants: list[dict[str, Any]] = self.info["constants"]
        self._programs: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in self.info.get("entries", ())}
        self.entries = list(self._programs)
        super().__init__(library, self.info, self.info["target"] != "cpu")
        _libraries.point_out(self.path, self._on_gpu)
        options = self._make_options(threads, weights)
        options.device_index = device
        self._check(self._library.kiln_model_create(C.byref(options), C.byref(self._handle)))
        self._set_function("kiln_model_run", self._handle)

    def _make_options(self, threads: int, weights: Path | None) -> _abi.Options:
        return _abi.Options(
            struct_size=C.sizeof(_abi.Options),
            num_threads=threads,
            log=_abi.SILENT,
            weights_path=os.fsencode(weights) if weights is not None else None,
        )

    def session(self) -> "Session":
        """A new session: the buffers that the program writes to, with the model's values, and memory of runs."""
        handle = C.c_void_p()
        self._check(self._library.kiln_session_create(self._handle, C.byref(handle)))
        return Session(self, handle)

    def _find_entry(self, name: str) -> int:
        number = C.c_uint32()
        self._check(self._library.kiln_model_find_entry(self._handle, name.encode(), C.byref(number)))
        return number.value

    def set_constant(self, name: str, value: Any) -> None:
        """Replaces a parameter or buffer by a tensor of the same dtype and shape; `"NAME[2:5]"` are rows 2, 3 and 4 of it."""
        names = (name, name.rpartition("[")[0])
        declared = next((entry["dtype"] for entry in self.constants if entry["name"] in names), None)
        tensor, owner = _call.describe(value, declared)
        self._check(self._library.kiln_model_set_constant(self._handle, name.encode(), C.byref(tensor)))
        del owner

    def close(self) -> None:
        """Frees the model; it cannot be called afterwards."""
        handle, self._handle.value = self._handle.value, None
        if handle:
            self._library.kiln_model_destroy(handle)

    def __del__(self) -> None:
        if getattr(self, "_library", None):
            self.close()

    def __repr__(self) -> str:
        def text(entries: Sequence[dict[str, Any]]) -> str:
            return ", ".join(f"{entry['name']}: {entry['dtype']}{entry['shape']}" for entry in entries)

        if len(self.entries) < 2:
            return f"<kiln.Model {self.info['name']} ({text(self.inputs)}) -> ({text(self.outputs)})>"
        programs = (f"{name}({text(entry['inputs'])}) -> ({text(entry['outputs'])})" for name, entry in self._programs.items())
        return f"<kiln.Model {self.info['name']}: {'; '.join(programs)}>"


class Session:
    """What the runs of a model change, for one of several that use it: see kiln_session in include/kiln-c/model.h.

    A session is called as its model is. It runs on one thread at a time, different sessions at the same time."""

    def __init__(self, model: Model, handle: C.c_void_p) -> None:
        self.model, self._handle = model, handle
        main = model.info.get("entry")
        self._own = model._bind(None, "kiln_session_run", handle, C.c_uint32(model.entries.index(main) if main else 0))
        self._is_callable = main is not None or not model.entries

    @property
    def _entry(self) -> Entry:
        if not self._is_callable:
            raise KilnError(1, f"the model has the programs {', '.join(self.model.entries)}: session.entry(NAME) is one of them")
        return self._own

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Runs the program, as the model does, on this session's buffers."""
        return self._entry(*inputs, **named)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """As `Model.run`."""
        return self._entry.run(inputs)

    def entry(self, name: str) -> Entry:
        """A program of the model, by its name, as a function on this session's buffers: to be kept for many calls."""
        number = self.model._find_entry(name)
        entry = Entry(self.model._library, self.model._programs[name], self.model._on_gpu)
        return entry._bind(self, "kiln_session_run", self._handle, C.c_uint32(number))

    def reset(self) -> None:
        """Gives the buffers the model's values again."""
        self.model._check(self.model._library.kiln_session_reset(self._handle))

    def clone(self) -> "Session":
        """A session of the same model whose buffers have the values of this one's."""
        handle = C.c_void_p()
        self.model._check(self.model._library.kiln_session_clone(self._handle, C.byref(handle)))
        return Session(self.model, handle)

    def close(self) -> None:
        """Frees the session; it cannot be called afterwards."""
        handle, self._handle.value = self._handle.value, None
        if handle:
            self.model._library.kiln_session_destroy(handle)

    def __del__(self) -> None:
        self.close()


def load(path: Path, threads: int = 0, weights: Path | None = None, device: int = 0) -> Model:
    """Loads a compiled model. `threads` 0 uses all cores this process may use; `weights` is the path of external weights
    that do not lie beside the `.so`; `device` is the GPU of a model for CUDA."""
    return Model(path, threads, weights, device)
