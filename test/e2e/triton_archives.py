"""Archives with launches of Triton kernels, made without Triton: the kernels are C functions that the emulator runs (triton_stand_ins.c)."""

import functools
import hashlib
import json
import pathlib
import subprocess
import tempfile
import zipfile

import torch
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_functional

from kiln import _triton, pack

SOURCE = pathlib.Path(__file__).with_name("triton_stand_ins.c")
MEMBER = "extra/kiln_triton.json"

# Parameters in their order; an argument of a launch that is none of them is a constant.
PARAMETERS = {
    "add_kernel": "x:*fp32 y:*fp32 out:*fp32 n:i32 scale:fp32",
    "softmax_kernel": "x:*fp32 out:*fp32 stride:i32 columns:i32",
    "mm_kernel": "a:*fp32 b:*fp32 c:*fp32 M:i32 N:i32 K:i32 sam:i32 sbn:i32 scm:i32",
    "bump_kernel": "x:*fp32 n:i64 by:fp32 flag:i1",
}


@functools.cache
def build(*flags):
    """An image of the emulator."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "stand_ins.so"
        command = ["cc", "-std=gnu99", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", *flags, SOURCE, "-o", output, "-lm"]
        subprocess.run(command, check=True)
        return output.read_bytes()


def launch(kernel, grid, writes, **arguments):
    """A launch as export makes it; the grid is one tuple for each configuration."""
    number = kernel_side_table.add_kernel(kernel)
    constants = kernel_side_table.add_constant_args({})
    return triton_kernel_wrapper_functional(
        kernel_idx=number,
        constant_args_idx=constants,
        grid=[(*sizes, 1, 1)[:3] for sizes in grid],
        tma_descriptor_metadata={},
        kwargs=arguments,
        tensors_to_clone=writes,
    )


def describe(node, images):
    """The call as kiln.pack would describe it. `images`: for each configuration, a flag of the C compiler and bytes of shared memory."""
    kernel = kernel_side_table.get_kernel(node.kwargs["kernel_idx"])
    call = _triton.Call(node, dict(node.kwargs["kwargs"]))
    configs = []
    for i, ((flags, shared), grid) in enumerate(zip(images, node.kwargs["grid"])):
        first = len(call.inputs)
        call.inputs.update({f"grid.{i}.{axis}": size for axis, size in zip("xyz", grid)})
        places = {name: at for at, name in enumerate(call.inputs)}
        parameters = [
            dict(name=name, type=kind, input=places[name]) for name, kind in (text.split(":") for text in PARAMETERS[kernel].split())
        ]
        file = f"kiln_triton/stand_ins{''.join(flags)}.so"
        call.files[file] = build(*flags)
        configs.append(
            {
                "function": kernel,
                "warps": 4 >> i,
                "alignment": 16,
                "grid": [first, first + 1, first + 2],
                "parameters": [*parameters, *[dict(name="", type="*i8", input=None)] * 2],
                "images": [dict(arch="emulator", kind="emulator", shared=shared, file=file)],
            }
        )
    call.description = {"inputs": list(call.inputs), "configs": configs}
    call.name = f"{kernel}_{hashlib.sha256(json.dumps(call.description).encode()).hexdigest()[:16]}"
    return call


def save(program, path, images=(((), 0),), change=None):
    """Saves the program with stand-ins. `change` may damage the description."""
    calls = [describe(node, images) for node in _triton.find_launches(program)]
    with pack._saved_as(calls):
        torch.export.save(program, path)
    description = {"format": 1, "triton": "0", "kernels": {call.name: call.description for call in calls}}
    files = {f"extra/{name}": data for call in calls for name, data in call.files.items()}
    if change:
        change(description, files)
    pack._add_members(path, {MEMBER: json.dumps(description).encode(), **files})
    return path


def add_stand_ins(path, output, images=(((), 0),)):
    """An archive that kiln.pack has written, with stand-ins beside the machine code."""
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(output, "w") as written:
        for name in archive.namelist():
            data = archive.read(name)
            if name.endswith(MEMBER):
                root = name.split("/")[0]
                description = json.loads(data)
                for kernel in description["kernels"].values():
                    for config, (flags, shared) in zip(kernel["configs"], images):
                        file = f"kiln_triton/stand_ins{''.join(flags)}.so"
                        config["images"].append(dict(arch="emulator", kind="emulator", shared=shared, file=file))
                        if f"{root}/extra/{file}" not in written.namelist():
                            written.writestr(f"{root}/extra/{file}", build(*flags))
                data = json.dumps(description)
            written.writestr(name, data)
    return output
