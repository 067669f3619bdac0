"""aot-run on hand-written programs: arrays of every dtype in and out, symbols, reports, bad files.

Usage: aot-run-test.py AOT_RUN LINK_TEST ROWS.o ECHO.o"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile

try:
    import numpy as np
except ImportError:
    print("skipped: this Python has no numpy")
    sys.exit(77)

AOT_RUN, LINK = map(os.path.abspath, sys.argv[1:3])


def link(program, name):
    subprocess.run([LINK, "--link", program, name], check=True)
    return name


def run(*arguments, fails=None):
    process = subprocess.run([AOT_RUN, *map(str, arguments)], capture_output=True, text=True)
    if fails is None:
        assert process.returncode == 0 and process.stderr == "", process
    else:
        assert process.returncode == 1 and process.stderr.startswith("aot-run: error: "), process
        assert process.stderr.count("\n") == 1 and fails in process.stderr, process
    return process.stdout


def run_arrays(model, *arguments, **arrays):
    np.savez("in.npz", **arrays)
    if os.path.exists("out.npz"):
        os.remove("out.npz")
    run(model, "--inputs", "in.npz", "--outputs", "out.npz", *arguments)
    with np.load("out.npz") as outputs:
        return dict(outputs)


def refuse_arrays(text, model, **arrays):
    np.savez("in.npz", **arrays)
    run(model, "--inputs", "in.npz", "--outputs", "never.npz", fails=text)
    assert not os.path.exists("never.npz")


def test_dtypes(echo):
    rng = np.random.default_rng(0)
    arrays = {"scalar": np.int64(-7), "b": rng.random((2, 3)) < 0.5}
    for name, dtype in (
        ("u8", "u1"),
        ("i8", "i1"),
        ("i16", "i2"),
        ("i32", "i4"),
        ("i64", "i8"),
        ("f16", "f2"),
        ("f32", "f4"),
        ("f64", "f8"),
        ("c64", "c8"),
        ("c128", "c16"),
        ("bf16", "V2"),
        ("e4m3", "V1"),
        ("e5m2", "V1"),
    ):
        size = np.dtype(dtype).itemsize
        arrays[name] = np.frombuffer(rng.bytes(6 * size), dtype).reshape(2, 3)
    outputs = run_arrays(echo, **arrays)
    assert list(outputs) == [str(i) for i in range(len(arrays))]
    names = json.loads(run(echo, "--info"))["inputs"]
    for i, entry in enumerate(names):
        want, got = np.asarray(arrays[entry["name"]]), outputs[str(i)]
        assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes(), entry
    # By position, compressed, in Fortran's order, in Fortran's and no particular alignment.
    by_position = {str(i): np.asarray(arrays[entry["name"]], order="F") for i, entry in enumerate(names)}
    np.savez_compressed("in.npz", **by_position)
    run(echo, "--inputs", "in.npz", "--outputs", "out.npz")
    with np.load("out.npz") as again:
        assert all(again[key].tobytes() == outputs[key].tobytes() for key in outputs)
    # Random inputs: the same for the same seed, of the right kinds.
    run(echo, "--outputs", "a.npz"), run(echo, "--outputs", "b.npz"), run(echo, "--seed", 1, "--outputs", "c.npz")
    a, b, c = (open(f"{name}.npz", "rb").read() for name in "abc")
    assert a == b != c
    with np.load("a.npz") as random:
        assert set(random["6"].flat) <= {0, 1} and random["1"].dtype == bool
        assert 0.1 < np.abs(random["9"]).mean() < 3 and random["9"].std() > 0.1
    return arrays


def test_rows(rows):
    rng = np.random.default_rng(1)
    x, ids = rng.random((5, 8), "float32"), np.array([0, 7, 3, 1, 2])
    arrays = {"0": x, "ids": ids, "state": np.zeros((4, 4), "float32"), "3": np.float64(2)}
    outputs = run_arrays(rows, "--repeat", 3, "--warmup", 2, **arrays)
    assert sorted(outputs) == ["0", "1", "3", "mutated_2"]
    y = x * 2 + np.arange(1, 9, dtype="float32")
    assert (outputs["0"] == y).all() and (outputs["3"] == y.T).all() and (outputs["1"] == x[np.arange(5), ids]).all()
    assert (outputs["mutated_2"] == 1).all()  # of the first run
    refuse_arrays("index out of range", rows, **{**arrays, "ids": ids + 1})
    refuse_arrays('input 1 "ids": expected int64 [s0] = [5], got int64 [4]', rows, **{**arrays, "ids": ids[:4]})
    refuse_arrays('input 0 "x": expected float32 [s0, 8], got float64 [5, 8]', rows, **{**arrays, "0": x.astype("f8")})
    refuse_arrays("no array for input 3", rows, **{key: arrays[key] for key in ("0", "ids", "state")})
    refuse_arrays("no input 'other'", rows, **arrays, other=x)
    refuse_arrays("no input '4'", rows, **arrays, **{"4": x})
    refuse_arrays('input 0 "x" is given by position and by name', rows, **arrays, x=x)
    refuse_arrays("voids", rows, **{**arrays, "0": np.zeros((5, 8), "V4")})


def test_symbols_and_reports(rows):
    assert 'output 0 "y": float32 [1, 8]' in run(rows)  # the smallest size
    run(rows, "--sym", "s0=12", "--repeat", 20, "--threads", 2, "--json", "run.json")
    report = json.load(open("run.json"))
    assert set(report) == {"load_ms", "first_run_ms", "latency_ms", "runs", "threads", "peak_rss_mb", "outputs"}
    assert report["runs"] == 20 and report["threads"] == 2 and report["outputs"][2] is None
    assert report["outputs"][3] == {"dtype": "float32", "shape": [8, 12]}
    latency = report["latency_ms"]
    assert 0 < latency["min"] <= latency["median"] <= latency["p90"] <= latency["p99"] and report["peak_rss_mb"] > 0
    run(rows, "--sym", "s0=0", fails="expected s0 in [1, 100000], got 0")
    run(rows, "--sym", "s1=3", fails="no symbol 's1'")
    run(rows, "--sym", "s0=x", fails="expected NAME=VALUE")
    run(rows, "--sym", "s0=2", "--sym", "s0=3", fails="'s0' has a value already")
    run(rows, "--sym", "u0=2", fails="has no effect: the size of no input is computed with 'u0'")
    run(rows, "--threads", -1, fails="num_threads")
    run(rows, "--json", "/nonexistent/run.json", fails="cannot write /nonexistent/run.json")
    run(rows, "--outputs", "/nonexistent/out.npz", fails="cannot write /nonexistent/out.npz")
    run(rows, "--outputs", "/dev/null", fails="not a regular file")
    assert json.loads(run(rows, "--info"))["symbols"] == {"s0": {"min": 1, "max": 100000}, "u0": {"min": 0, "max": None}}


def write_npz(members):
    with zipfile.ZipFile("in.npz", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def npy(header, data=b"", version=b"\1\0"):
    header = header.encode()
    return b"\x93NUMPY" + version + len(header).to_bytes(2 if version == b"\1\0" else 4, "little") + header + data


def test_broken_files(rows):
    def refuse(text, *members):
        write_npz(dict(members))
        run(rows, "--inputs", "in.npz", fails=text)

    good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 8), }"
    data = bytes(32)
    for header in (
        "",
        "{}",
        "[]",
        good[:-1],
        good + "x",
        good.replace("'descr'", "'desc'"),
        good.replace("False", "0"),
        good.replace("(1, 8)", "8"),
        good.replace("(1, 8)", "(8)"),
        good.replace("(1, 8)", "(1 8)"),
        good.replace("(1, 8)", "(-1, 8)"),
        good.replace("(1, 8)", "(1, 99999999999999999999)"),
        good.replace("(1, 8)", "(" + "1, " * 65 + ")"),
        good.replace("}", "'descr': '<f4'}"),
        good.replace("'<f4'", "'<f4"),
        good.replace("'<f4'", "[('a', '<f4')]"),
        good.replace("'descr': '<f4', ", ""),
    ):
        refuse("its header is not that of a plain array", ("0.npy", npy(header, data)))
    for descr in ("|O", "|O8", "<U3", "f", "", "<f3", "<f0", "<f99999999999", "<M8[ns]", "<b2"):
        refuse("is not supported", ("0.npy", npy(good.replace("<f4", descr), data)))
    refuse("big-endian", ("0.npy", npy(good.replace("<f4", ">f4"), data)))
    for size in (0, 31, 33, 4000):
        refuse("which is not the size of its data", ("0.npy", npy(good, bytes(size))))
    refuse("which is not the size of its data", ("0.npy", npy(good.replace("(1, 8)", "(65536, 65536)"), data)))
    refuse("does not fit in memory", ("0.npy", npy(good.replace("1, 8", "4294967296, 4294967296"), data)))
    refuse("a bool is neither 0 nor 1", ("0.npy", npy(good.replace("<f4", "|b1"), b"\2" * 8)))
    refuse("its header is too long", ("0.npy", npy(good + " " * (1 << 21), data, b"\2\0")))
    refuse(".npy version 4.0", ("0.npy", npy(good, data, b"\4\0")))
    for content in (b"", b"\x93NUMPY", b"\x93NUMPY\1\0", b"\x93NUMPY\1\0\xff\xff", b"PK\3\4 something else"):
        refuse("", ("0.npy", content))
    refuse("'0.txt' is not a .npy file", ("0.txt", b""))
    # Every version and spelling of a good one.
    for header, version in (
        (good, b"\1\0"),
        (good, b"\2\0"),
        (good, b"\3\0"),
        (good.replace("<", "="), b"\1\0"),
        ('{"shape":(1,8),"descr":"<f4","fortran_order":False}\n', b"\1\0"),
    ):
        refuse("no array for input 1", ("0.npy", npy(header, data, version)))
    whole = open("in.npz", "rb").read()
    for content in (b"", b"text", whole[:40], whole[:-30], whole[:60] + b"\xff" + whole[61:], whole[:-10] + b"\xff" * 10):
        open("broken.npz", "wb").write(content)
        run(rows, "--inputs", "broken.npz", fails="broken.npz")
    run(rows, "--inputs", "missing.npz", fails="missing.npz")
    run("in.npz", fails="cannot load 'in.npz'")
    run("missing.so", fails="cannot load 'missing.so'")
    run("libc.so.6", fails="cannot load")
    open("empty.npz", "wb").write(b"PK\5\6" + bytes(18))
    run(rows, "--inputs", "empty.npz", fails="no array for input 0")


with tempfile.TemporaryDirectory() as directory:
    rows_object, echo_object = map(os.path.abspath, sys.argv[3:5])
    os.chdir(directory)
    rows_model, echo_model = link(rows_object, "rows.so"), link(echo_object, "echo.so")
    test_dtypes(echo_model)
    test_rows(rows_model)
    test_symbols_and_reports(rows_model)
    test_broken_files(rows_model)
    os.chdir("/")
print("ok")
