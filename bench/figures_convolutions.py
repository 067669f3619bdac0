"""Kiln's convolutions beside eager PyTorch's, which are oneDNN's: shapes of image networks, each alone, fp32, batch 1, one thread."""

import sys

import figures_extern
import peers
import table
from workers import Worker, interleave

LEVEL = "x86-64-v3"  # the lower one, at which eager gets along without AVX-512, too
SYSTEMS = ["kiln", "eager", f"kiln@{LEVEL}", f"eager@{LEVEL}"]
WITHOUT_AVX512 = ["env", "ONEDNN_MAX_CPU_ISA=AVX2", "ATEN_CPU_CAPABILITY=avx2"]


def convolution(inputs, outputs, window, *image, padding=0, stride=1, groups=1):
    """A convolution as `figures_extern` describes contracts; windows are square, or cubes."""
    rank = len(image)
    sizes = ((size + 2 * padding - window) // stride + 1 for size in image)
    source, weights = (1, inputs, *image), (outputs, inputs // groups, *(window,) * rank)
    steps = (*(stride,) * rank, *(padding,) * rank, *(1,) * rank)
    return ("convolution", groups, 1, rank + 2, *source, *weights, 1, outputs, *sizes, *steps)


def _same(inputs, outputs, *image):
    return convolution(inputs, outputs, 3, *image, padding=1)


SHAPES = {
    "wide planes": [
        _same(32, 32, 128, 512),
        convolution(32, 32, 3, 128, 512),
        _same(32, 32, 128, 504),
        _same(32, 32, 100, 300),
        _same(32, 32, 16, 512),
        _same(32, 32, 64, 64),
        _same(64, 64, 64, 256),
        _same(64, 64, 60, 264),
        _same(256, 64, 32, 128),
        _same(128, 128, 28, 28),
        convolution(32, 18, 1, 128, 512),
        convolution(32, 2, 1, 128, 512),
    ],
    "more outputs than inputs": [
        convolution(16, 96, 1, 112, 112),
        convolution(24, 144, 1, 56, 56),
        convolution(64, 256, 1, 56, 56),
        convolution(128, 512, 1, 28, 28),
    ],
    "U-Net": [
        _same(3, 64, 256, 256),
        _same(64, 64, 256, 256),
        _same(256, 128, 128, 128),
        _same(512, 512, 32, 32),
        convolution(64, 2, 1, 256, 256),
    ],
    "VGG-16": [_same(3, 64, 224, 224), _same(64, 128, 112, 112), _same(256, 256, 56, 56), _same(512, 512, 28, 28), _same(512, 512, 14, 14)],
    "Inception": [convolution(32, 32, 3, 149, 149), convolution(48, 64, 5, 35, 35, padding=2), convolution(768, 192, 1, 17, 17)],
    "YOLO-like": [
        convolution(3, 16, 3, 320, 320, padding=1, stride=2),
        _same(32, 32, 80, 80),
        convolution(64, 128, 3, 80, 80, padding=1, stride=2),
    ],
    "sequences and volumes": [
        convolution(80, 384, 3, 3000, padding=1),
        convolution(384, 384, 3, 3000, padding=1, stride=2),
        _same(32, 32, 16, 56, 56),
    ],
}
TINY = {"tiny": [_same(3, 8, 9, 20), convolution(8, 2, 1, 5, 7)]}


def _start(system, contract):
    name, _, level = system.partition("@")
    if name == "eager":
        command = [sys.executable, peers.HOSTS / "eager_contract.py", *contract]
        return Worker([*WITHOUT_AVX512, *command] if level else command, 1)
    folder = figures_extern.export(contract)
    model, _ = peers.kiln(folder, options=(f"--cpu={level}",) if level else (), variant=f"-{level}" if level else "")
    return Worker([peers.host("kiln"), model, folder / "inputs.bin", 1], 1)


def _measure(contract, seconds):
    running = {}
    try:
        for system in SYSTEMS:
            running[system] = _start(system, contract)
        return interleave(running, seconds, rounds=6)
    finally:
        for worker in running.values():
            worker.close()


def measure(options):
    """Median seconds of each system for each shape, by its description."""
    families = TINY if options.tiny else SHAPES
    count = sum(map(len, families.values()))
    print(f"== {count} convolutions beside eager's", flush=True)
    return {
        " ".join(map(str, contract)): {"family": family, **_measure(contract, options.seconds / 6)}
        for family, contracts in families.items()
        for contract in contracts
    }


def _describe(contract):
    """`3×3 32→32 of 128×512`, from the numbers."""
    groups, _, rank, *rest = map(int, contract.split()[1:])
    source, weights, steps = rest[:rank], rest[rank : 2 * rank], rest[3 * rank :]
    spatial = rank - 2
    text = f"{'x'.join(map(str, weights[2:]))} {source[1]}->{weights[0]} of {'x'.join(map(str, source[2:]))}"
    text += f", stride {steps[0]}" if steps[0] != 1 else ""
    text += f", padding {steps[spatial]}" if steps[spatial] else ""
    return text + (f", {groups} groups" if groups != 1 else "")


def _ratios(results, level):
    return {contract: row[f"kiln{level}"] / row[f"eager{level}"] for contract, row in results.items()}


def tabulate(results):
    """The ratios are Kiln's time over eager's."""
    levels = ["", f"@{LEVEL}"]
    ratios = {level: _ratios(results, level) for level in levels}
    rows = []
    for contract, row in results.items():
        cells = [row["family"], _describe(contract)]
        for level in levels:
            cells += [
                table.milliseconds(row[f"kiln{level}"]),
                table.milliseconds(row[f"eager{level}"]),
                table.ratio(ratios[level][contract]),
            ]
        rows.append(cells)
    means = [["", "", table.ratio(table.geometric_mean(ratios[level].values()))] for level in levels]
    rows.append(["geometric mean", "", *(cell for cells in means for cell in cells)])
    return ["", "ms", *(heading + level for level in levels for heading in ("Kiln", "eager", "ratio"))], rows


def show(results, goals):
    print("\nConvolutions in ms, one thread; ratios are Kiln's time over eager's, with the machine's instructions and with AVX2\n")
    print(table.render(*tabulate(results)))
    for title, level in (("convolutions against eager", ""), (f"convolutions against eager, {LEVEL}", f"@{LEVEL}")):
        every = _ratios(results, level).values()
        goals.add(f"{title}, geometric mean", table.geometric_mean(every), 0.9, "of its time")
        goals.add(f"{title}, worst", max(every, default=None), 1.1, "of its time")
