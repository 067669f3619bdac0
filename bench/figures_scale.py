"""What compiling costs against the size of a program: unrolled recurrences, deep networks, wide mixtures of experts."""

import json
import re
import statistics
import sys
import zipfile

import numpy

import peers
import table

WIDTH = 64
# Numbers of steps, layers or experts. Those of `--tiny` are the first.
FAMILIES = {
    "recurrence": (50, 200, 800, 10000),
    "recurrence, any batch": (50, 200, 800),
    "layers": (100, 300, 1000),
    "experts": (16, 64, 256),
    "routed experts": (4, 16, 64),
    "decoder": (1, 24),
}
MODELS = {"bert-base": 1.0, "resnet50": 1.2}  # seconds


def _module(family, count):
    """(module, inputs, dynamic shapes)"""
    import torch
    from torch import nn

    class Recurrence(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            state = torch.zeros(x.shape[0], WIDTH)
            for i in range(count):
                a = self.a(x[:, i])
                state = torch.tanh(a + self.b(state)) * torch.sigmoid(a) + 0.5 * torch.relu(state)
            return state

    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(count))

        def forward(self, x):
            for layer in self.layers:
                x = torch.relu(layer(x))
            return x

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(32, count)
            self.experts = nn.ModuleList(nn.Sequential(nn.Linear(32, WIDTH), nn.GELU(), nn.Linear(WIDTH, 32)) for _ in range(count))

        def forward(self, x):
            weights, chosen = torch.topk(torch.softmax(self.gate(x), -1), 2)
            y = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                if family == "experts":  # each computes all rows
                    y = y + (weights * (chosen == i)).sum(-1, keepdim=True) * expert(x)
                else:  # as many as data says
                    rows, place = torch.where(chosen == i)
                    y = y.index_add(0, rows, weights[rows, place].unsqueeze(-1) * expert(x[rows]))
            return y

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

    torch.manual_seed(0)
    if family.startswith("recurrence"):
        shapes = ({0: torch.export.Dim("batch", min=1, max=1024)},) if "any" in family else None
        return Recurrence(), (torch.randn(4, count, WIDTH),), shapes
    if family == "layers":
        return Layers(), (torch.randn(8, 32),), None
    if family == "decoder":
        return nn.Sequential(*(Block() for _ in range(count))), (torch.randn(1, 32, WIDTH),), None
    return Experts(), (torch.randn(16, 32),), None


def _unroll(archive, steps, count, target):
    """Writes a recurrence of `count` steps, made of one of so many as PyTorch would; returns the number of nodes."""
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(target, "w") as written:
        for name in source.namelist():
            if not name.endswith("/models/model.json"):
                written.writestr(name, source.read(name))
                continue
            program = json.loads(source.read(name))
            nodes = _unroll_graph(program["graph_module"], steps, count)
            written.writestr(name, json.dumps(program))
    return nodes


def _unroll_graph(module, steps, count):
    graph = module["graph"]
    nodes, tensors = graph["nodes"], graph["tensor_values"]
    length = len(nodes) // steps
    former, last = ([node["name"] for node in nodes[begin:][:length]] for begin in (len(nodes) - 2 * length, len(nodes) - length))
    template = json.dumps(nodes[-length:])
    for step in range(steps, count):
        before = last if step == steps else [f"{name}_{step - 1}" for name in last]
        names = dict(zip(former, before)) | {name: f"{name}_{step}" for name in last}
        text = re.sub(r'(?<="name": ")\w+', lambda match, names=names: names.get(match[0], match[0]), template)
        nodes += json.loads(text.replace(f'"as_int": {steps - 1}}}', f'"as_int": {step}}}'))
        tensors |= {names[name]: tensors[name] for name in last}
    renamed = {last[-1]: names[last[-1]]}
    for place in (graph["outputs"][0], module["signature"]["output_specs"][0]["user_output"]["arg"]):
        place["as_tensor"]["name"] = renamed[place["as_tensor"]["name"]]
    tensors["x"]["sizes"][1]["as_int"], tensors["x"]["strides"][0]["as_int"] = count, count * WIDTH
    return len(nodes) + len(graph["inputs"]) + 1


def export(family, count):
    """(archive, number of nodes)"""
    import torch

    folder = peers.CACHE / "scale" / f"{family.replace(', ', '-').replace(' ', '-')}-{count}"
    stamp = folder / "nodes"
    if not stamp.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if count > 1000:  # PyTorch would take minutes
            stamp.write_text(str(_unroll(export(family, 4)[0], 4, count, folder / "model.pt2")))
            return export(family, count)
        module, inputs, shapes = _module(family, count)
        with torch.no_grad():
            program = torch.export.export(module.eval().requires_grad_(False), inputs, dynamic_shapes=shapes)
        torch.export.save(program, folder / "model.pt2")
        stamp.write_text(str(len(program.graph.nodes)))
    return folder / "model.pt2", int(stamp.read_text())


# In a process of its own: what a child has had in memory counts from before it was the compiler.
RUNNER = """
import os, sys, time
start = time.perf_counter()
_, status, usage = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


def compile_once(archive, output):
    """Seconds from start to exit, those of all cores together, and the peak of memory in bytes."""
    command = [peers.BIN / "aot-compile", archive, "-o", output, "--progress=never"]
    text = peers.call([sys.executable, "-S", "-c", RUNNER, *command], f"aot-compile {archive.parent.name}")
    return [float(number) for number in text.split()]


def _measure(archive, nodes, runs=3):
    output = archive.with_suffix(".so")
    times = [compile_once(archive, output) for _ in range(runs)]
    text = peers.run_compiler([archive, "--emit=wrapper", "-o", "-"])
    row = {
        "nodes": nodes,
        "launches": len(re.findall(r"^ *wrapper\.launch ", text, re.M)),
        "kernels": len(re.findall(r"^ *kernel\.func ", text, re.M)),
        "seconds": statistics.median(time[0] for time in times),
        "cpu": statistics.median(time[1] for time in times),
        "memory": max(time[2] for time in times),
        "bytes": output.stat().st_size,
        "weights": peers.weight_bytes(archive.parent),
    }
    output.unlink()
    return row


def measure(options):
    """For each program its row."""
    results = {}
    counts = {family: counts[:1] if options.tiny else counts for family, counts in FAMILIES.items()}
    for family, some in counts.items():
        for count in some:
            print(f"== compiling {family} {count}", flush=True)
            results[f"{family} {count}"] = _measure(*export(family, count), runs=1 if count > 1000 else 3)
    for name in MODELS if not options.tiny else ():
        archive = peers.model(name) / "model.pt2"
        results[name] = _measure(archive, 0)
    return results


def fit(results):
    """Seconds of CPU time for a program, a thousand nodes and a kernel, by least squares of relative errors."""
    rows = [row for row in results.values() if row["nodes"]]
    matrix = numpy.array([[1, row["nodes"] / 1000, row["kernels"]] for row in rows])
    cpu = numpy.array([row["cpu"] for row in rows])
    return [float(value) for value in numpy.linalg.lstsq(matrix / cpu[:, None], numpy.ones(len(rows)), rcond=None)[0]]


def tabulate(results):
    headings = ["", "nodes", "launches", "kernels", "s", "s of CPU", "MB of memory", "kB of .so", "of weights"]
    rows = []
    for name, row in results.items():
        sizes = [f"{row[key] / 1e3:.0f}" for key in ("bytes", "weights")]
        times = [table.number(row["seconds"]), table.number(row["cpu"]), f"{row['memory'] / 1e6:.0f}"]
        rows.append([name, str(row["nodes"] or "-"), str(row["launches"]), str(row["kernels"]), *times, *sizes])
    return headings, rows


def _describe(results):
    program, nodes, kernel = fit(results)
    return f"{program:.2f} s + {nodes:.2f} s for 1,000 nodes + {kernel * 1e3:.0f} ms for a kernel"


def show(results, goals):
    print("\nCompiling: all cores\n")
    print(table.render(*tabulate(results)))
    if len(results) > 3:
        print("CPU time: " + _describe(results))
    for name, seconds in MODELS.items():
        goals.add(f"compiling {name}", results.get(name, {}).get("seconds"), seconds, "s")
    long = results.get("recurrence 800", {})
    goals.add("compiling 800 steps", long.get("seconds"), 5, "s")
    goals.add("library of 800 steps", long["bytes"] / 1e6 if long else None, 1, "MB")
    some = [results.get(f"decoder {layers}") for layers in FAMILIES["decoder"]]
    goals.add("compiling 24 layers, CPU time", some[1]["cpu"] / some[0]["cpu"] if all(some) else None, 1.5, "of one layer's")
    largest = max(results.values(), key=lambda row: row["nodes"])
    goals.add(f"memory for {largest['nodes']} nodes", largest["memory"] / 1e9, 4, "GB")


def document(results, part):
    """Writes what this run has measured into docs/benchmarks.md."""
    text = [f"CPU time is about {_describe(results[part])}.", ""]
    table.write_section(f"bench/run --only {part} --document", results, *tabulate(results[part]), text)
