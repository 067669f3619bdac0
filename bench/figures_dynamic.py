"""What dynamic dimensions cost: latency and compile time of dynamic models beside static ones and AOTInductor's dynamic ones."""
import dynamic
import models
import peers
import table
from workers import Worker, interleave


def _static(name, tiny, row):
    """(`.so`, seconds of its compilation) of the model exported for these sizes alone."""
    return peers.kiln(dynamic.export(name, tiny, row))


def _inputs(name, tiny, row):
    """File of the inputs of these sizes."""
    target = peers.CACHE / "dynamic" / ("-".join(["tiny" if tiny else "published", name, *map(str, row.values())]) + ".bin")
    target.parent.mkdir(parents=True, exist_ok=True)
    _, config = dynamic.build(name, tiny)
    peers.write_inputs([tensor.numpy() for tensor in models.flatten(dynamic.inputs(name, config, row))], target)
    return target


def measure(options):
    """Seconds of a run of each system at each combination of sizes, and of each compilation."""
    results = {}
    for name in options.dynamic:
        results[name] = result = {"sizes": [], "compile": {}}
        folder = dynamic.export(name, options.tiny)
        library, result["compile"]["dynamic"] = peers.kiln(folder)
        commands = {}
        try:
            package, result["compile"]["aoti"] = peers.aoti(folder, "default")
            commands["aoti"] = [peers.host("aoti"), package]
        except peers.Unavailable as error:
            print(f"   {name}: no AOTInductor: {error}", flush=True)
        for row in dynamic.rows(name, options.tiny, timed=True):
            print(f"== dynamic {name}, {' '.join(f'{dim} {size}' for dim, size in row.items())}", flush=True)
            static, seconds = _static(name, options.tiny, row)
            result["compile"].setdefault("static", seconds)
            inputs = _inputs(name, options.tiny, row)
            workers = {}
            try:
                for system, command in {"dynamic": [peers.host("kiln"), library], "static": [peers.host("kiln"), static], **commands}.items():
                    try:
                        workers[system] = Worker([*command, inputs, 1], 1)
                    except peers.Unavailable as error:
                        print(f"   {name}: no {system}: {error}", flush=True)
                result["sizes"].append({"sizes": row, "median": interleave(workers, options.seconds / 2)})
            finally:
                for worker in workers.values():
                    worker.close()
            inputs.unlink()
    return results


def _quotient(row, system):
    return row["dynamic"] / row[system] if system in row and "dynamic" in row else None


def show(results, goals):
    lines, ratios = [], {"static": [], "aoti": []}
    for name, result in results.items():
        for entry in result["sizes"]:
            medians = entry["median"]
            quotients = {system: _quotient(medians, system) for system in ratios}
            for system, quotient in quotients.items():
                ratios[system].append(quotient)
            lines.append([f"{name} {'x'.join(map(str, entry['sizes'].values()))}",
                          *(table.milliseconds(medians.get(system)) for system in ("dynamic", "static", "aoti")),
                          *map(table.ratio, quotients.values())])
    means = {system: table.geometric_mean(values) if all(values) else None for system, values in ratios.items()}
    lines.append(["geometric mean", "", "", "", *map(table.ratio, means.values())])
    print("\nLatency of dynamic models in ms, median, 1 thread\n")
    print(table.render(["", "Kiln", "static", "AOTInductor", "of static", "of AOTI"], lines))
    compile_times = {name: result["compile"] for name, result in results.items()}
    compile_ratios = {name: _quotient(row, "static") for name, row in compile_times.items()}
    print("\nCompile time of dynamic models in seconds\n")
    print(table.render(["", "Kiln", "static", "AOTInductor", "of static"], [
        [name, *(table.number(row.get(system)) for system in ("dynamic", "static", "aoti")), table.ratio(compile_ratios[name])]
        for name, row in compile_times.items()]))
    goals.add("dynamic latency, geometric mean", means["static"], 1.05, "of static")
    goals.add("dynamic latency, worst", max(ratios["static"]) if all(ratios["static"]) else None, 1.15, "of static")
    goals.add("dynamic latency, geometric mean", means["aoti"], 0.9, "of AOTInductor's dynamic")
    worst = max(compile_ratios.values()) if all(compile_ratios.values()) else None
    goals.add("dynamic compile time, worst model", worst, 1.3, "of static")
