// The page: its head, its sections, and one selection that all of them share.

const page = { model: readReport("report"), other: readReport("other"), views: [] };

function tile(value, label, note) {
  return el("div", { class: "tile" }, el("b", {}, value), el("span", {}, label), note && el("small", {}, note));
}

function header(model) {
  const { raw, total } = model, symbols = Object.entries(raw.symbols || {});
  const real = model.nodes.filter((node) => !isInputOrOutput(node)), launches = sum(model.steps, (step) => step.times);
  document.title = `${raw.model} – Kiln report`;
  return [
    el("div", { class: "title" }, el("h1", {}, raw.model), [raw.target, raw.cpu, "-O" + raw.level, raw.compiler].map((text) => el("span", { class: "chip" }, text)),
      el("button", { type: "button", class: "theme", onclick: switchTheme }, "Light / dark")),
    symbols.length > 0 && el("p", { class: "muted" }, "Sizes: ", symbols.slice(0, 12).map(([name, range], i) => [i ? ", " : "", el("code", {}, name), ` ${range.min ?? "−∞"} … ${range.max ?? "∞"}`]), symbols.length > 12 ? ` and ${symbols.length - 12} more` : ""),
    el("div", { class: "tiles" },
      model.isMeasured && tile(formatSeconds(total.measured), "measured in kernels", `${plural(raw.profile.threads, "thread")}, a run ${formatSeconds(raw.profile.run_ms / 1e3)}`),
      tile(model.formatTime(total.cycles), "estimated", raw.machine ? "one core" : "of a GPU"),
      tile(formatFlops(total.flops), "FLOPs"), tile(formatBytes(total.bytes), "moved", total.bytes ? digits(total.flops / total.bytes) + " FLOPs a byte" : ""),
      tile(`${formatCount(real.length)} → ${formatCount(launches)}`, "nodes → steps", plural(model.runKernels.length, "kernel")),
      tile(formatBytes(raw.weights_bytes), "weights"), tile(formatBytes(model.arena), "arena", raw.functions[0]?.arena_text ? "guess" : ""),
      raw.sections && tile(formatBytes(model.outputBytes - sum(raw.sections.filter((section) => section.name === ".kiln_weights"), (section) => section.bytes)), "output", "without weights"),
      tile(formatCount(raw.findings.length), "findings")),
  ];
}

function switchTheme() {
  const root = document.documentElement, isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
}

//===-- Graphs ----------------------------------------------------------------------------------===//

function graphBefore(model, number) {
  const own = model.nodes.filter((node) => (node.graph || 0) === number), places = new Map(own.map((node, i) => [node.number, i]));
  const leaves = own.map((node, i) => ({
    key: "l" + i, module: node.module, node, label: isInputOrOutput(node) ? node.name : opName(node.op), title: (node.outputs || [])[0] || "",
    inputs: [...new Set(node.inputs || [])].map((input) => places.get(input)).filter((input) => input !== undefined),
    time: sum(node.steps, (step) => (step.nodes[0] === node ? step.times * (step.cycles || 0) : 0)),
  }));
  return buildTree(model.raw.modules, leaves, model.raw.graphs[number] || "main");
}

function graphAfter(model, number) {
  const entry = model.functions[number], leaves = [], inputs = new Map();
  const names = (model.raw.inputs || []).map((input) => input.name);
  const inputLeaf = (argument) => {
    if (!inputs.has(argument)) {
      inputs.set(argument, leaves.length);
      leaves.push({ module: -1, label: number === 0 ? names[argument] || "input" : "input " + argument, title: number === 0 ? typeText((model.raw.inputs || [])[argument]) : "", inputs: [], isInput: true });
    }
    return inputs.get(argument);
  };
  for (const step of entry.steps) step.arguments.forEach((argument) => typeof argument === "number" && inputLeaf(argument));
  const places = new Map();
  for (const step of entry.steps) {
    places.set(step.number, leaves.length);
    leaves.push({
      module: step.nodes.length ? step.nodes[0].module : -1, step, label: describeNodes(step.nodes, 3) || step.name, title: step.name, time: step.times * (step.cycles || 0),
      inputs: [...step.inputs.map((input) => places.get(input)), ...step.arguments.filter((argument) => typeof argument === "number").map(inputLeaf)],
    });
  }
  (Array.isArray(entry.outputs) ? entry.outputs : []).forEach((writers, i) => {
    const makers = (Array.isArray(writers) ? writers : []).map((writer) => places.get(entry.first + writer)).filter((place) => place !== undefined);
    if (makers.length) leaves.push({ module: -1, label: number === 0 ? (model.raw.outputs || [])[i]?.name || "output" : "output " + i, title: number === 0 ? typeText((model.raw.outputs || [])[i]) : "", inputs: makers, isOutput: true });
  });
  leaves.forEach((leaf, i) => { leaf.key = "l" + i; });
  return buildTree(model.raw.modules, leaves, entry.name);
}

const typeText = (tensor) => (tensor && tensor.dtype ? `${tensor.dtype}[${(tensor.shape || []).join(", ")}]` : "");

function paintNode(leaf) {
  const { node } = leaf, words = `${node.name}: ${opName(node.op)}, ${describeFate(node)}`;
  if (isInputOrOutput(node)) return { kind: "port", words };
  if (node.steps.length) return { kind: "computed", hue: hueOf(node.steps[0].name), words };
  return { kind: node.isKnown ? "known" : "dissolved", words, hue: node.readers.length && !node.isKnown ? hueOf(node.readers[0].name) : undefined };
}

function paintStep(leaf) {
  if (!leaf.step) return { kind: "port", words: leaf.label };
  const words = `${leaf.step.name}: ${describeNodes(leaf.step.nodes, 8) || leaf.step.where || leaf.step.kind}`;
  return { kind: "computed " + leaf.step.kind, hue: hueOf(leaf.step.name), words };
}

function graphSection(model) {
  const details = el("aside", { class: "selection", "aria-live": "polite", id: "selection" });
  const panes = el("div", { class: "panes" });
  const state = { before: 0, after: 0 };
  const build = () => {
    const onSelect = (leaf) => select(!leaf ? null : leaf.node ? { node: leaf.node } : leaf.step ? { step: leaf.step } : null);
    page.before = new GraphView(graphBefore(model, state.before), { title: "Before fusion", label: "The exported program", word: "node", paint: paintNode, onSelect });
    page.after = new GraphView(graphAfter(model, state.after), { title: "After fusion", label: "Steps of a run", word: "step", paint: paintStep, onSelect, total: model.total.cycles });
    page.state = state;
    panes.replaceChildren(page.before.element, page.after.element);
    requestAnimationFrame(() => { page.before.start(); page.after.start(); });
  };
  page.rebuild = (changes) => { Object.assign(state, changes); build(); };
  const choice = (names, key, label) => names.length > 1 && el("label", {}, label + " ", el("select", { "data-choice": key, onchange: (event) => page.rebuild({ [key]: event.target.selectedIndex }) }, names.map((name) => el("option", {}, name))));
  const list = el("datalist", { id: "names" }, model.nodes.slice(0, 3000).map((node) => el("option", { value: node.name })), model.runKernels.map((kernel) => el("option", { value: kernel.name })));
  const search = el("input", { type: "search", list: "names", placeholder: "Find a node, kernel or operator", "aria-label": "Find a node, kernel or operator", onchange: () => find(search.value) });
  build();
  return [
    el("p", { class: "muted" }, "Boxes are Python modules: click to unfold them. A node before fusion has the color of the kernel that computes it; dashed nodes are part of how a kernel reads, dotted ones were known when the model was compiled."),
    el("div", { class: "controls" }, search, list, choice(model.raw.graphs, "before", "Graph before"), choice(model.functions.map((entry) => entry.name), "after", "Graph after")),
    panes, details,
  ];
}

function find(text) {
  const { model } = page, wanted = text.trim().toLowerCase();
  if (!wanted) return;
  const node = model.nodes.find((candidate) => candidate.name.toLowerCase() === wanted);
  const step = model.steps.find((candidate) => candidate.name.toLowerCase() === wanted);
  if (node || step) return select(step && !node ? { step } : { node });
  const loose = model.nodes.find((candidate) => candidate.name.toLowerCase().includes(wanted) || candidate.op.toLowerCase().includes(wanted));
  if (loose) select({ node: loose });
}

//===-- The selection ---------------------------------------------------------------------------===//

/** {node} or {step}: shown in both graphs and described below them; null: nothing. */
function select(what) {
  const { model } = page, panel = document.getElementById("selection");
  if (!what) {
    page.before.mark(null, []);
    page.after.mark(null, []);
    return panel.replaceChildren();
  }
  const nodes = what.node ? [what.node] : what.step.nodes;
  const steps = what.step ? [what.step] : what.node.steps.length ? what.node.steps : what.node.readers || [];
  const changes = {};
  if (nodes.length && (nodes[0].graph || 0) !== page.state.before) changes.before = nodes[0].graph || 0;
  if (steps.length && steps[0].owner !== model.raw.functions[page.state.after]) changes.after = model.raw.functions.indexOf(steps[0].owner);
  if (Object.keys(changes).length) {
    page.rebuild(changes);
    for (const [key, value] of Object.entries(changes)) document.querySelector(`[data-choice="${key}"]`)?.setAttribute("data-value", value);
    for (const box of document.querySelectorAll("[data-choice]")) box.selectedIndex = page.state[box.dataset.choice];
  }
  const leafOf = (view, list, key) => view.tree.leaves.filter((leaf) => leaf[key] && list.includes(leaf[key]));
  const left = leafOf(page.before, nodes, "node"), right = leafOf(page.after, steps, "step");
  page.before.mark(what.node ? left[0] : null, left.map((leaf) => leaf.number));
  page.after.mark(what.step ? right[0] : null, right.map((leaf) => leaf.number));
  if (left.length) page.before.show(left[0]);
  if (right.length) page.after.show(right[0]);
  panel.replaceChildren(what.node ? describeNode(model, what.node) : describeStep(model, what.step));
  const graph = document.getElementById("graph");
  if (graph.getBoundingClientRect().bottom < 0 || graph.getBoundingClientRect().top > innerHeight) graph.scrollIntoView();
}

const typeOf = (step) => (step.kernel ? "kernel" : step.kind);

function describeNode(model, node) {
  const modules = [];
  for (let number = node.module ?? -1; number >= 0; number = model.raw.modules[number].parent) modules.unshift(model.raw.modules[number]);
  return el("div", {}, el("h3", {}, node.name, " ", el("span", { class: "chip" }, node.op)), facts([
    ["It is", describeFate(node)], ["Source", node.file !== undefined && el("code", {}, model.raw.files[node.file] + ":" + node.line)],
    ["Module", modules.length && modules.slice(-1).map((module) => `${module.path || "the model"} (${baseType(module.type)})`)],
    ["Gives", (node.outputs || []).map((type) => el("code", {}, type + " "))], ["Weights", (node.weights || []).join(", ")],
    ["Needs", (node.inputs || []).slice(0, 20).map((input, i) => [i ? ", " : "", el("button", { type: "button", class: "link", onclick: () => select({ node: model.nodes[input] }) }, model.nodes[input].name)])],
    ["Steps", (node.steps.length ? node.steps : node.readers || []).slice(0, 20).map((step, i) => [i ? ", " : "", el("button", { type: "button", class: "link", onclick: () => select({ step }) }, `${step.name} (step ${step.number})`)])],
  ]));
}

function describeStep(model, step) {
  const { kernel } = step;
  return el("div", {}, el("h3", {}, step.name, " ", el("span", { class: "chip" }, typeOf(step)), el("span", { class: "chip" }, "step " + step.number)), facts([
    ["Computes", stepNodes(model, step, select)],
    ["Time", kernel && `${model.formatTime(kernel.cycles)} estimated${step.measured !== undefined ? ", " + formatSeconds(step.measured) + " measured" : ""}, ${formatShare(model.total.cycles ? (step.cycles || 0) * step.times / model.total.cycles : 0)} of a run` + (step.times > 1 ? `, ${formatCount(step.times)} times` : "")],
    ["Work", kernel && `${formatFlops(kernel.flops)} FLOPs, ${formatBytes(kernel.bytes)}` + (kernel.roofline === undefined ? "" : `, ${roofline(kernel)} of the ${kernel.bound} roofline`)],
    ["Schedule", kernel?.schedule && el("code", {}, kernel.schedule)], ["Launch", kernel?.launch && el("code", {}, kernel.launch)], ["Why", kernel?.reason],
    ["Reads", kernel && kernel.operands.map((type) => el("code", {}, type + " "))], ["Writes", kernel && kernel.results.map((type) => el("code", {}, type + " "))],
    ["After", step.inputs.map((input, i) => [i ? ", " : "", el("button", { type: "button", class: "link", onclick: () => select({ step: model.steps[input] }) }, model.steps[input].name)])],
    ["Graphs", (step.functions || []).join(", ")],
  ]));
}

//===-- All of it -------------------------------------------------------------------------------===//

function build() {
  const { model, other } = page;
  const sections = [
    other && ["compare", "Comparison", compareSection(model, other, select)],
    ["graph", "Graph", graphSection(model)], ["kernels", "Kernels", kernelsSection(model, select)], ["arena", "Arena", arenaSection(model, select)],
    ["weights", "Weights", weightsSection(model)], ["sizes", "Sizes", sizesSection(model)], ["findings", "Findings", findingsSection(model, select)],
  ].filter(Boolean);
  document.getElementById("top").replaceChildren(...header(model).filter(Boolean));
  document.getElementById("sections").replaceChildren(...sections.map(([id, title]) => el("a", { href: "#" + id }, title)));
  document.getElementById("main").replaceChildren(...sections.map(([id, title, content]) => el("section", { id, "aria-labelledby": id + "-title" }, el("h2", { id: id + "-title" }, title), content)));
  document.documentElement.dataset.ready = "true";
}

build();
