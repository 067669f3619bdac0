// Kernels by time, each with its launches, and the roofline that they stand under.

const roofline = (kernel) => (kernel.roofline === undefined ? "–" : kernel.roofline > 1.2 ? "> 100 %" : formatShare(Math.min(1, kernel.roofline)));

function kernelsSection(model, select) {
  const hasRoof = Boolean(model.raw.machine), timed = model.runKernels.filter((kernel) => kernel.total !== undefined);
  const untimed = model.runKernels.length - timed.length;
  const measured = model.isMeasured && { title: "Measured", kind: "number", value: (kernel) => kernel.measured, cell: (kernel) => formatSeconds(kernel.measured) };
  return el("div", {},
    el("p", {}, "Times are the cost model's for one core, ", hasRoof ? `at ${digits(model.raw.machine.hertz / 1e9)} GHz` : "in cycles of a whole GPU",
      ", over all launches", untimed ? `; ${plural(untimed, "kernel")} without an estimate` : "", ".",
      hasGuesses(model) ? " Sizes that only a run knows are taken to be 64." : "",
      model.isMeasured ? ` Measured times, and the place under the roofline, are those of the profile: medians of ${plural(model.raw.profile.runs, "run")} on ${plural(model.raw.profile.threads, "thread")}.` : "",
      model.isMeasured && model.unmatched ? ` ${plural(model.unmatched, "launch", "launches")} of the profile are none of this build's.` : "",
      model.raw.profile && !model.isMeasured ? " The profile is not one of this build." : ""),
    el("div", { class: "pair" }, hasRoof && timed.length > 0 && roofChart(model, timed, select), model.total.cycles > 0 && modulesChart(model)),
    sortedTable({
      label: "Kernels", rows: model.runKernels.map((kernel) => ({ ...kernel, key: kernel.name })), most: 40, sort: model.isMeasured ? 3 : 2, detail: (kernel) => kernelDetail(model, kernel, select),
      columns: [
        { title: "Kernel", value: (kernel) => kernel.name, cell: (kernel) => [el("code", {}, kernel.name), kernel.launches > 1 && el("span", { class: "muted" }, " × " + formatCount(kernel.launches))] },
        { title: "Nodes", value: (kernel) => describeNodes(kernel.steps[0].nodes), cell: (kernel) => el("span", { class: "nodes" }, describeNodes(kernel.steps[0].nodes) || kernel.op, el("span", { class: "muted" }, " " + lineOf(model, kernel.steps[0]))) },
        { title: "Time", kind: "number", value: (kernel) => kernel.total, cell: (kernel) => model.formatTime(kernel.total) },
        measured,
        { title: "Share", kind: "share", value: (kernel) => kernel.total, cell: (kernel) => [bar(kernel.share), formatShare(kernel.share)] },
        { title: "FLOPs", kind: "number", help: "Floating-point operations", value: (kernel) => kernel.flops * kernel.launches, cell: (kernel) => formatFlops(kernel.flops * kernel.launches) },
        { title: "Bytes", kind: "number", help: "Bytes that have to move", value: (kernel) => kernel.bytes * kernel.launches, cell: (kernel) => formatBytes(kernel.bytes * kernel.launches) },
        hasRoof && { title: "Roofline", kind: "number", help: "The share of what the machine could do at this ratio of operations to bytes", value: (kernel) => kernel.roofline, cell: (kernel) => [roofline(kernel), el("span", { class: "muted bound" }, kernel.roofline === undefined ? "" : kernel.bound)] },
      ].filter(Boolean),
    }));
}

/** Time by Python module, to be unfolded. */
function modulesChart(model) {
  const { root } = graphAfter(model, 0), total = model.total.cycles;
  const line = (item) => [bar(item.time / total), el("span", { class: "percent" }, formatShare(item.time / total)), " ", item.label, item.type ? el("span", { class: "muted" }, " " + baseType(item.type)) : "", " ", el("span", { class: "muted" }, model.formatTime(item.time))];
  const list = (group) => el("ul", { class: "tree" }, [...group.children].filter((child) => child.time > 0).sort((a, b) => b.time - a.time).map((child) => {
    if (child.isLeaf) return el("li", {}, line(child));
    const details = el("details", { ontoggle: () => { if (details.open && details.children.length === 1) details.append(list(child)); } }, el("summary", {}, line(child)));
    details.fill = () => list(child);
    return el("li", {}, details);
  }));
  const top = list(root);
  for (let inner = top; inner; inner = inner.querySelector("details[open] > ul")) {
    // A row with almost all of the time says nothing as long as it is folded.
    const [first] = inner.children;
    const details = first && first.querySelector("details"), share = details && parseFloat(details.querySelector(".percent").textContent);
    if (!details || share < 85) break;
    details.append(details.fill());
    details.open = true;
  }
  return el("figure", { class: "chart" }, el("h4", {}, "Time by Python module"), el("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": "Time by Python module" }, top));
}

const hasGuesses = (model) => Object.keys(model.raw.symbols || {}).length > 0;

function lineOf(model, step) {
  const node = step.nodes.find((candidate) => candidate.file !== undefined);
  return node ? placeOf(model, node) : "";
}

function kernelDetail(model, kernel, select) {
  const own = model.kernels[kernel.number];
  return el("div", { class: "kernel-detail" },
    facts([
      ["Schedule", kernel.schedule && el("code", {}, kernel.schedule)], ["Launch", kernel.launch && el("code", {}, kernel.launch)], ["Why", kernel.reason],
      ["Reads", kernel.operands.map((type) => el("code", {}, type + " "))], ["Writes", kernel.results.map((type) => el("code", {}, type + " "))],
      ["Once", `${model.formatTime(kernel.cycles)}, ${formatFlops(kernel.flops)} FLOPs, ${formatBytes(kernel.bytes)}`], ["Code", kernel.codeBytes && formatBytes(kernel.codeBytes)],
    ]),
    el("h4", {}, plural(own.steps.length, "launch", "launches")),
    el("ul", { class: "launches" }, own.steps.slice(0, 200).map((step) => el("li", {}, stepButton(step, select), stepNodes(model, step, select)))));
}

const facts = (list) => el("dl", {}, list.filter(([, value]) => value !== undefined && value !== "" && value !== 0 && value !== false && value !== null).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));

const stepButton = (step, select) => el("button", { type: "button", class: "link", onclick: () => select({ step }) }, `step ${step.number}`);

const stepNodes = (model, step, select) => el("span", {}, " ", inOrder(step.nodes).slice(0, 30).map((node, i) => [i ? ", " : "", el("button", { type: "button", class: "link", onclick: () => select({ node }) }, node.name), el("span", { class: "muted" }, " " + placeOf(model, node))]),
  step.nodes.length > 30 ? ` and ${step.nodes.length - 30} more` : "", step.nodes.length ? "" : step.where || "");

/** Operations a second over operations a byte, both in powers of ten. */
function roofChart(model, kernels, select) {
  const { hertz, flops_per_cycle: peak, bytes_per_cycle: rate } = model.raw.machine;
  const points = kernels.filter((kernel) => kernel.flops > 0 && kernel.bytes > 0 && kernel.total > 0).map((kernel) => {
    const seconds = kernel.total / hertz;
    return { kernel, x: kernel.flops / kernel.bytes, y: (kernel.flops * kernel.launches) / seconds };
  });
  if (!points.length) return null;
  const top = peak * hertz, width = 760, height = 280, left = 64, bottom = 36, log = Math.log10;
  const ridge = peak / rate;
  const xs = [Math.min(0.05, ...points.map((point) => point.x)), Math.max(ridge * 10, ...points.map((point) => point.x))].map(log);
  const ys = [Math.max(Math.min(...points.map((point) => point.y)), top / 1e7), top * 1.6].map(log);
  const px = (x) => left + ((log(x) - xs[0]) / (xs[1] - xs[0])) * (width - left - 16), py = (y) => height - bottom - ((Math.max(log(y), ys[0]) - ys[0]) / (ys[1] - ys[0])) * (height - bottom - 14);
  const ticks = (from, to) => Array.from({ length: Math.max(0, Math.floor(to) - Math.ceil(from) + 1) }, (_, i) => 10 ** (Math.ceil(from) + i));
  const slope = Math.sqrt(ridge * 10 ** xs[0]);
  const roof = `M${px(10 ** xs[0])} ${py(rate * hertz * 10 ** xs[0])} L${px(ridge)} ${py(top)} L${px(10 ** xs[1])} ${py(top)}`;
  return el("figure", { class: "chart" }, svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Roofline: operations a second of each kernel over its operations a byte; the table has the same numbers" },
    ticks(...xs).map((x) => [svg("line", { class: "grid", x1: px(x), x2: px(x), y1: 14, y2: height - bottom }), svg("text", { class: "tick", x: px(x), y: height - bottom + 16, "text-anchor": "middle" }, formatTick(x))]),
    ticks(...ys).map((y) => [svg("line", { class: "grid", x1: left, x2: width - 16, y1: py(y), y2: py(y) }), svg("text", { class: "tick", x: left - 8, y: py(y) + 4, "text-anchor": "end" }, formatFlops(y))]),
    svg("path", { class: "roof", d: roof }),
    svg("text", { class: "tick", x: px(ridge) - 10, y: py(top) + 4, "text-anchor": "end" }, `one core: ${formatFlops(top)}FLOP/s`),
    svg("text", { class: "tick", x: px(slope) + 8, y: py(rate * hertz * slope) + 14 }, `memory: ${formatBytes(rate * hertz)}/s`),
    svg("text", { class: "axis", x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, "operations per byte"),
    points.sort((a, b) => b.kernel.share - a.kernel.share).map(({ kernel, x, y }) => {
      const words = `${kernel.name}: ${describeNodes(kernel.steps[0].nodes) || kernel.op}, ${digits(x)} operations a byte, ${formatFlops(y)}FLOP/s, ${formatShare(kernel.share)} of the time`;
      return svg("circle", { class: "dot " + kernel.op, cx: px(x), cy: py(y), r: 3 + 13 * Math.sqrt(kernel.share), onclick: () => select({ step: kernel.steps[0] }) }, svg("title", {}, words));
    })),
    el("figcaption", {}, "Circles are kernels, as large as their share of the time. Above the line data comes from a cache."));
}

const formatTick = (value) => (value >= 1 && value < 1e4 ? String(value) : value < 1 && value > 1e-4 ? String(+value.toPrecision(2)) : value.toExponential(0));
