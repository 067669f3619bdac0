"""Programs of low precision beside what other engines make of them, beside Kiln's fp32 and beside what the machine can do."""

import importlib.util
import pathlib
import sys

import numpy

import low_precision
import models
import peers
import table
from workers import Worker, interleave

LEVEL = "x86-64-v3"
PEERS = ["inductor-frozen", "openvino", "onnxruntime", "llama.cpp"]
SYSTEMS = ["kiln", f"kiln@{LEVEL}", "kiln-f32", f"kiln-f32@{LEVEL}", *PEERS]
TITLES = {"inductor-frozen": "torch.compile, frozen", "openvino": "OpenVINO", "onnxruntime": "ONNX Runtime", "llama.cpp": "llama.cpp"}
TOLERANCE = 0.3  # of the range of the outputs in fp32: engines round to other integers, but compute the same network


def export(name, tiny):
    """Folder of a program, exported by a process of its own, with its inputs as hosts read them."""
    if name in models.NAMES:
        return peers.model(name, tiny)
    folder = low_precision.CACHE / (("tiny-" if tiny else "") + name)
    script = "import pathlib, sys, low_precision; low_precision.export(sys.argv[1], bool(sys.argv[2]), pathlib.Path(sys.argv[3]))"
    command = [sys.executable, "-c", script, name, "tiny" if tiny else "", folder]
    peers.call(command, f"exporting {name}", env={"PYTHONPATH": ":".join([str(peers.HOSTS.parent), *sys.path])})
    peers.write_inputs(models.load_arrays(folder / "inputs.npz"), folder / "inputs.bin")
    return folder


def plain(name):
    """The program in fp32 that one of low precision is made of."""
    return low_precision.network_of(name) or f"{name.partition('-')[0]}-f32"


def _converted(system, name, tiny):
    """The program as a peer has it."""
    ending = {"openvino": "xml", "onnxruntime": "onnx", "llama": "gguf"}[system]
    folder = peers.CACHE / "low-precision" / system / (("tiny-" if tiny else "") + name)
    target, stamp = folder / f"model.{ending}", folder / "stamp"
    script = peers.HOSTS.parent / "low_precision_export.py"
    key = models.stamp_of(script, low_precision.__file__, models.__file__)
    if not (stamp.exists() and stamp.read_text() == key):
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        source = "-" if system == "llama" else peers.onnx(export(plain(name), tiny))
        arguments = [script, system, source, name, "tiny" if tiny else "published", target]
        peers.call([sys.executable, *arguments], f"{name} for {system}", env={"PYTHONPATH": ":".join(sys.path)})
        stamp.write_text(key)
    return target


def _engine(system, name, tiny, threads):
    """Command line of OpenVINO or ONNX Runtime."""
    scheme = name.rpartition("-")[2]
    peers.needs(system, "onnx", "onnxscript", *(["nncf"] if system == "openvino" else []))
    if system == "onnxruntime" and scheme == "bf16":
        raise peers.Unavailable("it has no products of bf16 on CPUs")
    folder = export(plain(name), tiny)
    path = peers.onnx(folder) if scheme in ("f32", "bf16") else _converted(system, name, tiny)
    tolerance = TOLERANCE if scheme != "f32" else 0.01
    files = [folder / "inputs.npz", folder / "expected.npz"]
    return [sys.executable, peers.HOSTS / "onnx_peer.py", system, path, *files, threads, tolerance, "bf16" if scheme == "bf16" else "f32"]


def _llama(name, tiny, threads):
    """Command line of llama.cpp, with the file that its logits go to."""
    kind, _, scheme = name.partition("-")
    if kind not in ("decode", "prefill") or scheme == "int4-g128":
        raise peers.Unavailable("it has no such program")
    peers.needs("llama_cpp", "gguf")
    root = pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent
    flags = ["-O2", "-std=c++20", f"-I{root.parent / 'include'}", f"-L{root / 'lib'}", f"-Wl,-rpath,{root / 'lib'}"]
    host = peers.host("llama", [*flags, "-Wl,--disable-new-dtags", "-lllama"])
    model = _converted("llama", name, tiny)
    past = "-"
    if kind == "decode":
        past = model.parent / "past.bin"
        peers.write_inputs([low_precision.tokens(tiny, "past").numpy()], past)
    return [host, model, export(f"{kind}-f32", tiny) / "inputs.bin", past, threads, model.parent / "logits.bin"]


def _check_logits(name, tiny):
    """Refuses an engine that computes something else."""
    kind = name.partition("-")[0]
    wanted = models.load_arrays(export(f"{kind}-f32", tiny) / "expected.npz")[0].ravel()
    logits = numpy.fromfile(_converted("llama", name, tiny).parent / "logits.bin", numpy.float32)
    if logits.shape != wanted.shape or not numpy.abs(logits - wanted).max() <= TOLERANCE * (wanted.max() - wanted.min()):
        raise peers.Unavailable("llama.cpp computes something else")


def start(system, name, tiny, threads):
    """A worker; on one thread times are the thread's own."""
    cpu = threads == 1
    if system == "llama.cpp":
        worker = Worker(_llama(name, tiny, threads), threads, cpu=cpu)
        try:
            _check_logits(name, tiny)
        except peers.Unavailable:
            worker.close()
            raise
        return worker
    if system == "inductor-frozen":
        size = "tiny" if tiny else "published"
        arguments = [peers.HOSTS / "dynamo.py", system, peers.CACHE / "inductor", name, size, threads]
        return Worker([sys.executable, *arguments], threads, preamble=1, cpu=cpu)
    if system in ("openvino", "onnxruntime"):
        return Worker(_engine(system, name, tiny, threads), threads, cpu=cpu)
    if system.startswith("rates-"):
        return Worker([peers.host("rates"), system.removeprefix("rates-")], 1, preamble=1, cpu=cpu)
    which, _, level = system.partition("@")
    folder = export(plain(name) if which == "kiln-f32" else name, tiny)
    library, _ = peers.kiln(folder, options=[f"--cpu={level}"] if level else (), variant=f"-{level}" if level else "")
    return Worker([peers.host("kiln"), library, folder / "inputs.bin", threads], threads, cpu=cpu)


def _rate(name):
    """The rate that a program is compared with, if there is one."""
    kind, _, scheme = name.partition("-")
    if kind == "decode":
        return "rates-read"
    return f"rates-{scheme}" if kind == "product" and scheme != "f32" else None


def _measure(name, options, threads):
    rate = _rate(name) if threads == 1 else None
    systems = [system for system in SYSTEMS if not (name.endswith("-f32") and system.startswith("kiln-f32"))]
    workers = {}
    try:
        for system in [*systems, *([rate] if rate else [])]:
            try:
                workers[system] = start(system, name, options.tiny, threads)
            except peers.Unavailable as error:
                print(f"   {name}: no {system}: {error}", flush=True)
        row = {"median": interleave(workers, options.seconds)}
        if rate in workers:
            row["rate"] = int(workers[rate].preamble[0]) / row["median"].pop(rate)
        return row
    finally:
        for worker in workers.values():
            worker.close()


def measure(options):
    """Seconds of a run by each system, by program and number of threads; on one thread, of CPU time."""
    results = {}
    for name in options.programs:
        results[name] = {"bytes": low_precision.weight_bytes(name, options.tiny)} if name.startswith("decode") else {}
        for threads in options.threads:
            print(f"== low precision: {name}, {threads} thread{'s' if threads > 1 else ''}", flush=True)
            results[name][f"threads-{threads}"] = _measure(name, options, threads)
    return results


def figures_of(name, result, threads):
    """(of the fp32 time, that at AVX2, best peer's time over Kiln's, share of the machine's rate) of one row, as far as there are any."""
    row = result[threads]
    times = row["median"]
    ratios = [
        times[system] / times[base] if system in times and base in times else None
        for system, base in (("kiln", "kiln-f32"), (f"kiln@{LEVEL}", f"kiln-f32@{LEVEL}"))
    ]
    others = [times[peer] for peer in PEERS if peer in times]
    ahead = min(others) / times["kiln"] if others and "kiln" in times else None
    work = result.get("bytes") if name.startswith("decode") else 2 * 1024**3
    share = work / times["kiln"] / row["rate"] if "rate" in row and "kiln" in times else None
    return *ratios, ahead, share


def tabulate(results, threads):
    rows = []
    for name, result in results.items():
        if threads not in result:
            continue
        times = result[threads]["median"]
        wide, narrow, ahead, share = figures_of(name, result, threads)
        shown = [table.milliseconds(times.get(system)) for system in ("kiln", f"kiln@{LEVEL}")]
        marked = "-" if ahead is None else f"{ahead:.2f}x{' behind' if ahead < 1 else ''}"
        of = [f"{ratio:.2f}" if ratio else "-" for ratio in (wide, narrow, share)]
        rows.append([name, *shown, *of[:2], *(table.milliseconds(times.get(peer)) for peer in PEERS), marked, of[2]])
    titles = [f"{TITLES[peer]}" for peer in PEERS]
    return ["ms", "Kiln", "with AVX2", "of its fp32", "with AVX2", *titles, "best of these over Kiln", "of the machine's rate"], rows


def _threads(results):
    return sorted({key for result in results.values() for key in result if key.startswith("threads-")})


def show(results, goals):
    for threads in _threads(results):
        print(f"\nLow precision, {threads.replace('-', ' ')}, medians\n")
        headings, rows = tabulate(results, threads)
        print(table.render(headings, rows))
    sets = peers.instruction_sets()
    has_tiles, has_bytes = "amx_tile" in sets, {"avx_vnni", "avx512_vnni"} & {*sets}
    for name, result in results.items():
        if "threads-1" not in result:
            continue
        wide, narrow, ahead, share = figures_of(name, result, "threads-1")
        times = result["threads-1"]["median"]
        kind = name.partition("-")[0]
        quantized = not name.endswith(("-f32", "-bf16"))
        if kind in ("decode", "prefill") and quantized:
            llama = times["llama.cpp"] / times["kiln"] if {"llama.cpp", "kiln"} <= {*times} else None
            goals.add(f"{name}, llama.cpp's time", llama, 1.1 if kind == "decode" else 1.2, "of Kiln's", at_least=True)
            if kind == "decode":
                goals.add(f"{name}, weights over time", share, 0.85, "of the read rate", at_least=True)
        elif low_precision.network_of(name):
            goals.add(f"{name}, best peer's time", ahead, 1.1, "of Kiln's", at_least=True)
            if not name.startswith("mobilenet"):
                for level, ratio, goal in (("this machine", wide, 4 if has_tiles else 2.5 if has_bytes else 1.5), ("AVX2", narrow, 1.5)):
                    goals.add(f"{name}, {level}, Kiln's fp32 time", ratio and 1 / ratio, goal, "of int8's", at_least=True)
        elif kind == "product" and name != "product-f32":
            # Bytes are held to what vectors multiply, an eighth of what tiles do.
            goal = (0.5 if name == "product-bf16" else 0.7 / 8) if has_tiles else 0.8 if name == "product-bf16" else 0.7
            goals.add(f"{name}, share of the instructions' rate", share, goal, "", at_least=True)
            if name == "product-bf16":
                goals.add(f"{name}, AVX2, Kiln's fp32 time", narrow and 1 / narrow, 0.95, "of bf16's", at_least=True)


def document(results, part):
    """Writes what this run has measured into docs/benchmarks.md, with tiles or AVX2 alone apart from others."""
    unit = ", tiles" if "amx_tile" in results["machine"]["isa"] else table.level(results)
    table.write_section(f"bench/run --only {part} --document{unit}", results, *tabulate(results[part], "threads-1"))
