"""The page of results: tables of what results.json holds, with the goals beside what was measured."""

import math


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def number(value):
    return "" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def one_line(text):
    return text.replace("\n", " ").replace("|", "/")[:200]


def best_peer(row, leave=("copy",)):
    peers = {name: ms for name, ms in row.get("peers", {}).items() if name not in leave}
    return min(peers.items(), key=lambda item: item[1]) if peers else ("none", None)


def is_limited_by_memory(row):
    return bool(row["bytes"]) and row["flops"] / row["bytes"] < 100


def rate(row):
    """What the part is measured in: TFLOP/s, or GB/s."""
    if row["part"] in ("contracts", "attention") and not is_limited_by_memory(row):
        return f"{row['flops'] / row['ms'] / 1e9:.0f} TFLOP/s"
    return f"{row['bytes'] / row['ms'] / 1e6:.0f} GB/s" if row["bytes"] else ""


def copy_rate(results):
    """GB/s of the fastest copy that was measured, read and written bytes together."""
    rates = [row["copied"] / row["peers"]["copy"] / 1e6 for row in results["rows"] if "copy" in row.get("peers", {}) and row.get("copied")]
    return max([*rates, results["machine"].get("copy_gb_s", 0)]) or None


def goals(results):
    """[(figure, measured, goal, met)]"""
    rows, copies, found = results["rows"], copy_rate(results), []
    for row in rows:
        if "ms" not in row:
            continue
        name, peer = best_peer(row)
        part, ms = row["part"], row["ms"]
        if part == "contracts" and peer:
            small = row["flops"] and row["flops"] < 2.0 * 4096**3
            found.append((f"{row['name']}: speed against {name}", peer / ms, 1.0 if small else 0.85))
        elif part == "attention":
            if peer:
                found.append((f"{row['name']}: speed against {name}", peer / ms, 1.0))
            if row["flops"] and not is_limited_by_memory(row):
                found.append((f"{row['name']}: TFLOP/s", row["flops"] / ms / 1e9, 500))
        elif part == "memory" and copies:
            found.append((f"{row['name']}: share of the copy's bandwidth", row["bytes"] / ms / 1e6 / copies, 0.9))
        elif part == "decode" and copies:
            found.append((f"{row['name']}: share of the bandwidth limit", row["bytes"] / ms / 1e6 / copies, 0.8))
        elif part == "models" and peer:
            found.append((f"{row['name']}: speed against {name}", peer / ms, 1.0))
    speeds = [best_peer(row)[1] / row["ms"] for row in rows if "ms" in row and row["part"] == "models" and best_peer(row)[1]]
    if speeds:
        found.append(("all models: speed against the best other, geometric mean", math.exp(sum(map(math.log, speeds)) / len(speeds)), 1.0))
    return [(figure, value, goal, value >= goal) for figure, value, goal in found]


def page(results):
    rows, machine = results["rows"], results["machine"]
    text = [
        f"# {machine.get('gpu')}, {machine.get('time')}",
        "",
        "Written by `bench/gpu/run`"
        + (" in its dry mode: sizes are tiny, the GPU is emulated, and no time means anything." if results["tiny"] else ".")
        + f" Commit {results['commit']}, compiled for {results['arch']}; torch {machine.get('torch')}, CUDA {machine.get('cuda')}; {machine.get('driver, clocks', 'no driver')}"
        + (f"; a copy moves {machine['copy_gb_s']} GB/s." if "copy_gb_s" in machine else "."),
        "",
    ]
    if not results["tiny"]:
        text += [
            "## Goals",
            "",
            table(["figure", "measured", "goal", ""], [(f, number(v), g, "met" if met else "missed") for f, v, g, met in goals(results)]),
            "",
        ]
    text += [
        "## Programs",
        "",
        "Times are medians of rounds in which all systems take turns. Errors are against float32 or wider: in the Euclidean norm, relative; and the largest in a row, as a share of the row's root mean square. A program is right only if the same bits come out again, after it has been timed as well.",
        "",
    ]
    packed = {entry["name"]: entry for entry in results.get("package", [])}
    body = [(name, "not compiled: " + one_line(entry["failed"]), "", "", "", "", "") for name, entry in packed.items() if "failed" in entry]
    for row in rows:
        entry = packed.get(row["name"], {})
        compiled = f"{number(entry.get('compile_s'))} s, {entry['bytes'] / (1 << 20):.2f} MiB" if "bytes" in entry else ""
        if "failed" in row:
            body.append((row["name"], "failed: " + one_line(row["failed"]), "", "", "", "", compiled))
            continue
        peers = ", ".join(
            [
                *(f"{name} {number(ms)}" for name, ms in row.get("peers", {}).items()),
                *(f"{name} failed" for name in row.get("failed_peers", {})),
            ]
        )
        state = "right" if row["right"] and row["repeats"] else "WRONG"
        body.append(
            (
                row["name"],
                state + (", " + one_line(row["unfinished"]) if "unfinished" in row else ""),
                f"{row['error']:.1e}, {row['row_error']:.1e}" if "row_error" in row else f"{row['error']:.1e}",
                number(row.get("ms")),
                rate(row) if "ms" in row else "",
                peers,
                compiled,
            )
        )
    text += [table(["program", "", "error", "ms", "", "others, ms", "compiled in, size"], body), ""]
    kernels = [
        (row["name"], system, entry["kernel"].replace("|", "/"), number(entry["calls"]), number(entry["us"]))
        for row in rows
        for system, entries in (row["kernels"].items() if isinstance(row.get("kernels"), dict) else ())
        for entry in entries
    ]
    if kernels:
        text += ["## Kernels", "", "What PyTorch's profiler sees of one call: those that take longest.", ""]
        text += [table(["program", "by", "kernel", "launches", "µs"], kernels), ""]
    for title, key, head in (
        ("compute-sanitizer", "sanitizer", ("program", "tool", "", "errors")),
        ("Nsight Compute", "profile", ("program", "kernel", "figures")),
    ):
        entries = results.get(key)
        text += [f"## {title}", ""]
        if isinstance(entries, str):
            text += [entries, ""]
        elif key == "sanitizer":
            text += [
                table(head, [(e["name"], e["tool"], e["state"], "" if e["errors"] is None else e["errors"]) for e in entries or []]),
                "",
            ]
        else:
            lines = [
                (e["name"], k["kernel"], ", ".join(f"{label} {value}" for label, value in k.items() if label != "kernel"))
                for e in entries or []
                for k in e["kernels"]
            ]
            lines += [(e["name"], e["state"], "") for e in entries or [] if not e["kernels"]]
            text += [table(head, lines), ""]
    return "\n".join(text)
