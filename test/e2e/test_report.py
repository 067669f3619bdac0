"""The page of a compilation (--report): its data, what it refuses, and the page itself in a browser."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import zipfile
import zlib

import numpy
import pytest
import torch
from torch.export import Dim

from conftest import TARGET, assert_user_error, run_tool

BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(not BROWSER, reason="there is no headless Chromium (Debian: chromium-headless-shell)")


class Block(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.first, self.second = torch.nn.Linear(size, 4 * size), torch.nn.Linear(4 * size, size)
        self.norm = torch.nn.LayerNorm(size)

    def forward(self, x):
        return self.norm(x + self.second(torch.nn.functional.gelu(self.first(x))))


class Stack(torch.nn.Module):
    def __init__(self, size=32, count=2):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(size) for _ in range(count))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Branches(torch.nn.Module):
    """A nested graph, sizes that only a run has, complex numbers and a copy."""

    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda t: t.sin() + 1, lambda t: t.cos(), (x,))
        return torch.linalg.svdvals(y), torch.polar(y, y) * 2, x.t().contiguous()


def export(module, inputs, path, dynamic_shapes=None):
    with torch.no_grad():
        torch.export.save(torch.export.export(module.eval(), inputs, dynamic_shapes=dynamic_shapes), path)
    return path


def read_report(page):
    """What the page holds; nothing else in it may begin or end an element."""
    blocks = re.findall(r'<script type="application/json" id="(\w+)">\n(.*?)\n</script>', page.read_text(), re.S)
    assert all(not set("<>&\u2028\u2029") & set(text) for _, text in blocks)
    reports = {name: json.loads(text) for name, text in blocks}
    return reports["report"] if len(reports) == 1 else (reports["report"], reports["other"])


def compile_report(archive, folder, *options, name="model"):
    page, output = folder / f"{name}.html", folder / f"{name}.so"
    process = run_tool("aot-compile", archive, "-o", output, f"--report={page}", *TARGET, *options)
    assert (process.returncode, process.stdout, process.stderr) == (0, "", ""), process.stderr[-3000:]
    return page


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("report")
    archive = export(Stack(), (torch.randn(8, 32),), folder / "stack.pt2")
    return folder, archive, compile_report(archive, folder)


@pytest.fixture(scope="module")
def branches(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    archive = export(Branches(), (torch.randn(6, 4),), folder / "branches.pt2", ({0: Dim("n", min=2, max=64)},))
    return compile_report(archive, folder)


def test_graph(stack):
    """Nodes have their operators, modules, lines, shapes and inputs, and the kernels that compute them."""
    report = read_report(stack[2])
    names = {node["name"]: node for node in report["nodes"]}
    gelu, norm = names["gelu"], names["layer_norm_1"]
    assert gelu["op"] == "aten.gelu.default" and gelu["outputs"] == ["float32[8, 128]"]
    assert [report["nodes"][i]["name"] for i in gelu["inputs"]] == ["linear"] and names["linear"]["weights"]
    modules = []
    number = norm["module"]
    while number >= 0:
        modules.append((report["modules"][number]["path"], report["modules"][number]["type"].rsplit(".")[-1]))
        number = report["modules"][number]["parent"]
    assert modules == [("blocks.1.norm", "LayerNorm"), ("blocks.1", "Block"), ("", "Stack")]
    assert pathlib.Path(report["files"][gelu["file"]]).name == "test_report.py"
    line = pathlib.Path(__file__).read_text().splitlines()[gelu["line"] - 1]
    assert "gelu" in line

    (program,) = report["functions"]
    kernels = report["kernels"]
    fused = [{report["nodes"][i]["name"] for i in step["nodes"]} for step in program["steps"]]
    assert any({"linear", "gelu"} <= nodes for nodes in fused) and any("layer_norm_1" in nodes for nodes in fused)
    # Equal kernels are one; their launches are of different nodes.
    by_kernel = {}
    for step, nodes in zip(program["steps"], fused):
        by_kernel.setdefault(kernels[step["kernel"]]["name"], []).append(nodes)
    shared = [launches for launches in by_kernel.values() if len(launches) == 2]
    assert shared and all(not (first & second) for first, second in shared)


def test_costs(stack):
    """Operations and bytes of a product with its epilogue, counted by hand."""
    report = read_report(stack[2])
    (program,) = report["functions"]
    for step in program["steps"]:
        names = {report["nodes"][i]["name"] for i in step["nodes"]}
        if "linear" not in names:
            continue
        kernel = report["kernels"][step["kernel"]]
        products, elements = 2 * 8 * 32 * 128, 8 * 128
        assert products + elements <= kernel["flops"] <= products + 64 * elements, kernel
        assert kernel["bytes"] == 4 * (8 * 32 + 32 * 128 + 128 + 8 * 128), kernel
        assert kernel["cycles"] > 0 and kernel["schedule"] and kernel["launch"] or TARGET
        break
    else:
        raise AssertionError("no kernel computes the first product")


class Bytes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.ones(64, 32, dtype=torch.int8))

    def forward(self, x):
        return torch._int_mm(x, self.weight)


def test_costs_of_bytes(tmp_path):
    """Operations on integers count in products, however many of them an instruction does."""
    archive = export(Bytes(), (torch.ones(20, 64, dtype=torch.int8),), tmp_path / "bytes.pt2")
    (product,) = (kernel for kernel in read_report(compile_report(archive, tmp_path))["kernels"] if kernel["op"] == "contract")
    assert product["flops"] == 2 * 20 * 64 * 32, product


def test_memory(stack):
    """Buffers lie in the arena while they live, and no two at the same place and time; weights add up."""
    report = read_report(stack[2])
    (program,) = report["functions"]
    buffers = program["buffers"]
    assert buffers and all(0 <= buffer["first"] <= buffer["last"] < len(program["steps"]) for buffer in buffers)
    for i, one in enumerate(buffers):
        assert one["offset"] + one["bytes"] <= program["arena"] and one["maker"] >= one["first"]
        for other in buffers[:i]:
            apart = one["offset"] >= other["offset"] + other["bytes"] or other["offset"] >= one["offset"] + one["bytes"]
            assert apart or one["first"] > other["last"] or other["first"] > one["last"]
    weights = report["weights"]
    assert sum(weight["bytes"] for weight in weights) <= report["weights_bytes"]
    packed = [weight for weight in weights if "blocks.0.first.weight" in weight.get("sources", [])]
    assert TARGET or (len(packed) == 1 and packed[0]["panel"] > 0 and packed[0]["fold"])
    assert any(weight.get("name") == "blocks.1.norm.weight" for weight in weights)


def test_output(stack):
    """Symbols and sections are those of the file, which is the same as without a report; so is every page."""
    folder, archive, page = stack
    report = read_report(page)
    sizes = {entry["name"]: entry for entry in report["code"]}
    launched = {report["kernels"][step["kernel"]]["name"] for step in report["functions"][0]["steps"]}
    assert TARGET or all(sizes[name]["section"] == "code" and sizes[name]["bytes"] > 0 for name in launched)
    sections = {section["name"]: section["bytes"] for section in report["sections"]}
    assert sections[".kiln_weights"] == report["weights_bytes"] and sections[".text"] > 0
    process = run_tool("aot-compile", archive, "-o", folder / "plain.so", *TARGET)
    assert process.returncode == 0 and (folder / "plain.so").read_bytes() == (folder / "model.so").read_bytes()
    assert compile_report(archive, folder, "--jobs=1", name="again").read_bytes() == page.read_bytes()


def test_findings(branches):
    """Copies, loops without vectors and calls of libraries are found, with their nodes and reasons."""
    report = read_report(branches)
    kinds = {finding["kind"] for finding in report["findings"]}
    assert "call" in kinds, kinds  # svdvals is a C function of the runtime
    if not TARGET:
        (scalar, *_) = [finding for finding in report["findings"] if finding["kind"] == "scalar"]
        assert "complex" in scalar["reason"] and report["nodes"][scalar["node"]]["op"].startswith("aten.")
    assert len(report["functions"]) == 3 and report["functions"][0]["arena_text"] and report["symbols"]
    moved = [finding for finding in report["findings"] if finding["kind"] == "copy" and finding["text"].endswith("only moves data")]
    assert {report["nodes"][finding["node"]]["op"] for finding in moved} & {
        "aten.t.default",
        "aten.permute.default",
        "aten.clone.default",
        "aten.contiguous.default",
    }, moved


def test_compare(stack):
    """Another build's page is read, and both are in the new one."""
    folder, archive, page = stack
    other = compile_report(archive, folder, "--cpu=x86-64-v3", "-O1", name="other")
    both = compile_report(archive, folder, f"--report-compare={other}", name="both")
    assert read_report(both) == (read_report(page), read_report(other))


def test_profile(stack, tmp_path):
    """Times of a run belong to the launches that took them; files that are no profile are refused."""
    folder, archive, page = stack
    process = run_tool("aot-run", folder / "model.so", "--repeat", "3", f"--profile={tmp_path / 'profile.json'}")
    assert process.returncode == 0, process.stderr
    report = read_report(compile_report(archive, tmp_path, f"--report-profile={tmp_path / 'profile.json'}"))
    names = {step["launch"]: report["kernels"][step["kernel"]]["name"] for step in report["functions"][0]["steps"]}
    assert {entry["launch"]: entry["name"] for entry in report["profile"]["launches"]} == names
    assert report["profile"]["runs"] == 3 and all(entry["ms"] > 0 for entry in report["profile"]["launches"])
    plain = json.loads((tmp_path / "profile.json").read_text())
    for change, message in (
        (lambda trace: trace.pop("kiln"), "not a profile"),
        (lambda trace: trace["kiln"].update(version=9), "version 9, expected 1"),
        (lambda trace: trace["kiln"].pop("launches"), "no 'launches'"),
        (lambda trace: trace["kiln"]["kernels"].append(7), "'kernels'"),
    ):
        trace = json.loads(json.dumps(plain))
        change(trace)
        (tmp_path / "wrong.json").write_text(json.dumps(trace))
        options = (f"--report={tmp_path / 'x.html'}", f"--report-profile={tmp_path / 'wrong.json'}")
        assert_user_error(run_tool("aot-compile", archive, "-o", tmp_path / "x.so", *options), "wrong.json", message)
    if BROWSER:
        document = open_page(tmp_path / "model.html", tmp_path)
        assert "measured in kernels" in document and "medians of 3 runs" in document


@pytest.mark.parametrize(
    "change,message",
    [
        (lambda text: "no page", "not a report of Kiln"),
        (lambda text: text.replace('id="report">', 'id="other">'), "not a report of Kiln"),
        (lambda text: text.replace('"kiln_report":1', '"kiln_report":7'), "a report of version 7, expected 1"),
        (lambda text: text[: text.index('id="report"') + 2000], "model.html"),
        (lambda text: text.replace('"nodes":[{', '"nodes":[[{', 1), "model.html"),
        (lambda text: re.sub(r'"kernel":\d+', '"kernel":123456', text), "wrong 'kernel'"),
        (lambda text: re.sub(r'"inputs":\[\d+', '"inputs":[100', text), "wrong 'inputs'"),
        (lambda text: re.sub(r'"parent":\d+', '"parent":2', text), "wrong 'parent'"),
        (lambda text: re.sub(r'"flops":[\d.]+', '"flops":"many"', text), "wrong 'flops'"),
        (lambda text: text.replace('"cpu":', '"cpus":'), "no 'cpu'"),
        (lambda text: re.sub(r'id="report">\n.*', 'id="report">\n' + "[" * 100000, text), "nested too deep"),
    ],
)
def test_wrong_reports(stack, tmp_path, change, message):
    folder, archive, page = stack
    (tmp_path / "model.html").write_text(change(page.read_text()))
    process = run_tool(
        "aot-compile", archive, f"--report={tmp_path / 'new.html'}", f"--report-compare={tmp_path / 'model.html'}", cwd=tmp_path
    )
    assert_user_error(process, "model.html", message)
    assert os.listdir(tmp_path) == ["model.html"]


@pytest.mark.parametrize(
    "options,message",
    [
        (["--report="], "--report"),
        (["--report-compare=x.html"], "no --report"),
        (["--report-profile=x.json"], "no --report"),
        (["--report=x.html", "--emit=torch"], "--emit=torch"),
        (["--report=x.html", "--report-compare=none.html"], "none.html"),
        (["--report=none/x.html"], "none/x.html"),
        (["--report=model.so", "-o", "model.so"], "model.so"),
        (["--report=x.html", "--report-profile=none.json"], "none.json"),
    ],
)
def test_wrong_options(stack, tmp_path, options, message):
    assert_user_error(run_tool("aot-compile", stack[1], *options, cwd=tmp_path), message)
    assert os.listdir(tmp_path) == []


def test_other_kinds(stack, tmp_path):
    """A report comes with every kind of output that has been planned."""
    for kind in ("wrapper", "json", "llvm") if not TARGET else ("wrapper", "json"):
        process = run_tool("aot-compile", stack[1], f"--emit={kind}", "-o", tmp_path / kind, f"--report={tmp_path / 'x.html'}", *TARGET)
        assert process.returncode == 0, process.stderr
        assert read_report(tmp_path / "x.html")["kernels"] == read_report(stack[2])["kernels"]


# In a browser


def open_page(page, folder, script="", picture=None):
    """The document after the page's scripts, and `script`, have run; its picture is saved, too. No error may be reported, and nothing fetched."""
    shown = folder / "shown.html"
    # Errors become an attribute of the document that comes back.
    watch = "<script>window.addEventListener('error', e => document.documentElement.setAttribute('data-error', e.message))</script>"
    text = page.read_text().replace("</title>", "</title>" + watch, 1)
    shown.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--window-size=1300,1100",
        "--virtual-time-budget=3000",
        "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={folder / 'net.json'}",
    ]
    for what in (["--dump-dom"], [f"--screenshot={picture}", "--force-device-scale-factor=0.5"])[: 2 if picture else 1]:
        process = subprocess.run([*command, *what, shown.as_uri()], capture_output=True, text=True, timeout=120)
        assert process.returncode == 0 and "CONSOLE" not in process.stderr, process.stderr[-2000:]
        urls = set(re.findall(r'"url":"([^"]*)"', (folder / "net.json").read_text()))
        assert all(url.startswith(("file:", "data:", "chrome")) for url in urls), urls
        if "--dump-dom" in what:
            document = process.stdout
    root = document.partition("<head>")[0]
    assert 'data-ready="true"' in root and "data-error" not in root, root
    return document


def find_texts(document, tag):
    return [re.sub(r"<[^>]*>", "", text) for text in re.findall(rf"<{tag}[ >].*?</{tag}>", document, re.S)]


def read_picture(path):
    """The pixels of a PNG of 8-bit colors, [height, width, channels]."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        length, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, channels = int.from_bytes(body[:4]), int.from_bytes(body[4:8]), {2: 3, 6: 4}[body[9]]
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    rows = numpy.frombuffer(zlib.decompress(packed), numpy.uint8).reshape(height, 1 + width * channels)
    pixels = numpy.zeros((height, width, channels), numpy.uint8)
    above = numpy.zeros((width, channels), numpy.uint8)
    for y, row in enumerate(rows):
        line, kind = row[1:].reshape(width, channels), row[0]
        if kind == 1:
            line = numpy.cumsum(line, axis=0, dtype=numpy.uint8)
        elif kind == 2:
            line = line + above
        elif kind > 2:
            line = undo_filter(kind, row[1:].tobytes(), above.tobytes(), channels).reshape(width, channels)
        pixels[y] = above = line
    return pixels


def undo_filter(kind, line, above, channels):
    """A row of the filters that go from left to right: the mean, and Paeth's."""
    result = bytearray(line)
    for i, value in enumerate(line):
        left, corner = (result[i - channels], above[i - channels]) if i >= channels else (0, 0)
        up = above[i]
        if kind == 3:
            guess = (left + up) // 2
        else:
            to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
            guess = left if to_left <= to_up and to_left <= to_corner else up if to_up <= to_corner else corner
        result[i] = (value + guess) & 255
    return numpy.frombuffer(bytes(result), numpy.uint8)


@needs_browser
def test_page(stack, tmp_path):
    """Every section is there with what the report says, and the picture shows both graphs."""
    report = read_report(stack[2])
    document = open_page(stack[2], tmp_path, picture=tmp_path / "page.png")
    assert [re.sub(r"<.*?>", "", title) for title in find_texts(document, "h2")] == [
        "Graph",
        "Kernels",
        "Arena",
        "Weights",
        "Sizes",
        "Findings",
    ]
    assert not re.search("https?://", document.replace("http://www.w3.org/2000/svg", ""))
    for number, kernel in enumerate(report["kernels"]):
        if any(step["kernel"] == number for step in report["functions"][0]["steps"]):
            assert f'data-row="{kernel["name"]}"' in document
    before, after = document.split("<h3>After fusion</h3>")
    assert (
        "<title>blocks.0, Block: " in before
        and before.count('class="group') > 2
        and after.count('class="leaf') >= len(report["functions"][0]["steps"])
    )
    assert document.count('class="buffer"') == len(report["functions"][0]["buffers"])
    drawn = document.partition('<script type="application/json"')[0].partition("<body>")[2]
    assert "undefined" not in drawn and "NaN" not in drawn and "Infinity" not in drawn
    # Both panes hold drawings: many colors, in many places.
    picture = read_picture(tmp_path / "page.png")
    assert picture.shape[:2] == (550, 650)
    panes = picture[150:350]
    colors = numpy.unique(picture.reshape(-1, picture.shape[2]), axis=0)
    assert len(colors) > 50
    for side in (panes[:, 20:315], panes[:, 335:630]):
        background = numpy.median(side.reshape(-1, side.shape[2]), axis=0)
        assert 0.005 < (side != background).any(axis=2).mean() < 0.9


@needs_browser
def test_page_without_a_mouse(stack, tmp_path):
    """Keys fold modules and select nodes, whose details appear with the kernel that computes them; tables sort and open."""
    script = """
      const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      const result = {}, boxes = () => document.querySelectorAll(".pane .leaf, .pane .group").length;
      const group = () => [...document.querySelectorAll(".pane .group")].find((g) => g.getAttribute("aria-label").startsWith("blocks.0,"));
      result.before = boxes();
      result.wasOpen = group().getAttribute("aria-expanded");
      press(group(), "Enter");
      result.after = boxes();
      const scene = document.querySelector(".graph > g"), from = scene.getAttribute("transform");
      press(document.querySelector(".graph"), "ArrowDown");
      press(document.querySelector(".graph"), "+");
      result.moved = scene.getAttribute("transform") !== from;
      const search = document.querySelector("input[type=search]");
      search.value = "gelu_1";
      search.dispatchEvent(new Event("change"));
      result.selected = document.getElementById("selection").textContent;
      result.marked = document.querySelectorAll(".pane .marked").length;
      const sorter = [...document.querySelectorAll("#kernels thead button")].find((b) => b.textContent.startsWith("Kernel"));
      sorter.click();
      result.sorted = [...document.querySelectorAll("#kernels tbody tr[data-row]")].map((row) => row.dataset.row);
      document.querySelector("#kernels .opener").click();
      result.detail = document.querySelector("#kernels .detail:not([hidden])").textContent;
      document.querySelector(".theme").click();
      result.theme = document.documentElement.dataset.theme;
      document.body.dataset.result = JSON.stringify(result);
    """
    document = open_page(stack[2], tmp_path, script)
    result = json.loads(re.search(r'data-result="([^"]*)"', document)[1].replace("&quot;", '"'))
    assert result["before"] != result["after"] and result["moved"] and result["marked"] >= 2
    assert "aten.gelu.default" in result["selected"] and "test_report.py" in result["selected"] and "computed in" in result["selected"]
    assert result["sorted"] and result["sorted"] == sorted(result["sorted"]) and "launch" in result["detail"]
    assert result["theme"] in ("dark", "light")


@needs_browser
def test_page_of_two_builds(stack, branches, tmp_path):
    """Kernels of both builds stand beside each other, by the nodes that they compute."""
    folder, archive, page = stack
    both = compile_report(archive, tmp_path, f"--report-compare={page}", "-O1")
    document = open_page(both, tmp_path)
    assert find_texts(document, "h2")[0] == "Comparison"
    section = document[document.index('id="compare"') : document.index('id="graph"')]
    assert "linear + gelu" in section and "-O1" in section and "-O3" in section and section.count('class="buffer"') > 2
    # Programs that share no node, one with nested graphs.
    other = compile_report(archive, tmp_path, f"--report-compare={branches}", name="strangers")
    assert "Comparison" in open_page(other, tmp_path)


@needs_browser
def test_page_with_nested_graphs(branches, tmp_path):
    document = open_page(branches, tmp_path)
    assert 'data-choice="before"' in document and 'data-choice="after"' in document and "taken to be 64" in document


def test_hostile_names(stack, tmp_path):
    """Names in an archive are text, whatever they look like: in the JSON, and in the page."""
    hostile = "</script><script>window.broken=1</script><!--<script>&amp;\u2028\u2029'\"\\<img src=x onerror=window.broken=1>"
    archive = tmp_path / "hostile.pt2"
    with zipfile.ZipFile(stack[1]) as old, zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("models/model.json"):
                quoted = json.dumps(hostile)
                data = data.decode().replace('"gelu"', quoted).replace("blocks.1.norm,", quoted[1:-1] + ",").encode()
            new.writestr(name, data)
    page = compile_report(archive, tmp_path)
    report = read_report(page)
    assert hostile in [node["name"] for node in report["nodes"]]
    assert page.read_text().count("<script") == stack[2].read_text().count("<script")
    if not BROWSER:
        pytest.skip("there is no headless Chromium (Debian: chromium-headless-shell)")
    script = "document.body.dataset.broken = String(window.broken) + document.querySelectorAll('main img').length"
    document = open_page(page, tmp_path, script)
    assert 'data-broken="undefined0"' in document


@needs_browser
def test_page_of_ten_thousand_nodes(stack, tmp_path):
    """A graph of that size is folded at first, also where no module says how, and what is unfolded is drawn as it comes into sight."""
    report = read_report(stack[2])
    plain = {"op": "aten.relu.default", "outputs": ["float32[8, 128]"], "file": 0, "line": 1}
    report["nodes"] = [{"name": f"n{i}", **plain, "inputs": [i - 1, max(0, i - 40)] if i else []} for i in range(10000)]
    for i, node in enumerate(report["nodes"][5000:]):
        node["module"] = 5 + i // 50
    report["modules"] = [
        {"path": "", "type": "Large", "parent": -1},
        *({"path": f"layers.{i}", "type": "Layer", "parent": 0} for i in range(110)),
    ]
    report["findings"] = []
    text = re.sub(
        r'(id="report">\n).*?(\n</script>)', lambda match: match[1] + json.dumps(report) + match[2], stack[2].read_text(), flags=re.S
    )
    (tmp_path / "large.html").write_text(text)
    script = """
      const first = document.querySelectorAll(".pane .leaf, .pane .group").length, begin = performance.now();
      for (let i = 0; i < 3; ++i) [...document.querySelectorAll(".pane button")].find((b) => b.textContent === "Unfold").click();
      const unfolded = document.querySelectorAll(".pane:first-child .leaf, .pane:first-child .group").length;
      document.body.dataset.counts = JSON.stringify([first, unfolded, performance.now() - begin]);
    """
    document = open_page(tmp_path / "large.html", tmp_path, script)
    first, unfolded, milliseconds = json.loads(re.search(r'data-counts="([^"]*)"', document)[1])
    assert 3 < first < 600 and 3 < unfolded < 6000 and milliseconds < 20000
