// The contents of the report, as objects that refer to each other.

function readReport(id) {
  const element = document.getElementById(id);
  return element ? readModel(JSON.parse(element.textContent)) : null;
}

function readModel(raw) {
  const model = { raw, kernels: raw.kernels.map((kernel, number) => ({ ...kernel, number, steps: [] })) };
  const hertz = raw.machine ? raw.machine.hertz : 0;
  model.seconds = (cycles) => (hertz ? cycles / hertz : 0);
  /** Cycles are no time on a machine whose clock is not known. */
  model.formatTime = (cycles) => (cycles === undefined ? "–" : hertz ? formatSeconds(cycles / hertz) : scaled(cycles, ["", "k", "M", "G"], 1000).trim() + " cycles");

  model.nodes = raw.nodes.map((node, number) => ({ ...node, number, steps: [] }));
  model.steps = [];
  model.functions = raw.functions.map((entry, number) => {
    const first = model.steps.length;
    const steps = entry.steps.map((step, index) => readStep(model, entry, step, first, index));
    model.steps.push(...steps);
    return { ...entry, number, steps, first };
  });
  for (const step of model.steps) {
    if (step.kernel) step.kernel.steps.push(step);
    for (const node of step.nodes) node.steps.push(step);
  }
  addMeasured(model);
  summarize(model);
  dissolve(model);
  return model;
}

function readStep(model, owner, step, first, index) {
  const kernel = step.kernel === undefined ? null : model.kernels[step.kernel];
  const nodes = (step.nodes || []).map((number) => model.nodes[number]);
  return {
    ...step, kernel, nodes, owner, number: first + index, times: owner.times,
    name: kernel ? kernel.name : step.name || "step", kind: kernel ? kernel.op : step.kind || "step",
    inputs: (step.inputs || []).map((input) => first + input), arguments: step.arguments || [],
    cycles: kernel ? kernel.cycles : undefined, flops: kernel ? kernel.flops : 0, bytes: kernel ? kernel.bytes : 2 * (step.bytes || 0),
  };
}

/** Times of a profile, which are of one run. A launch is known by its number and its kernel. */
function addMeasured(model) {
  const profile = model.raw.profile;
  if (!profile) return;
  const launches = new Map((profile.launches || []).map((entry) => [entry.launch, entry]));
  for (const step of model.steps) {
    const entry = launches.get(step.launch);
    if (entry && (step.kernel ? entry.name === step.name : step.kind === "call")) step.measured = entry.ms / 1e3;
  }
  const measured = model.steps.filter((step) => step.measured !== undefined).length;
  model.isMeasured = measured > 0;
  model.unmatched = launches.size - measured;
  model.profiled = new Map((profile.kernels || []).map((entry) => [entry.name, entry]));
}

function summarize(model) {
  const { raw, steps } = model;
  const total = (key) => sum(steps, (step) => step.times * (step[key] || 0));
  model.total = { cycles: total("cycles"), flops: total("flops"), bytes: total("bytes"), measured: sum(steps, (step) => step.measured || 0) };
  for (const kernel of model.kernels) {
    const times = sum(kernel.steps, (step) => step.times);
    kernel.launches = times;
    kernel.total = kernel.cycles === undefined ? undefined : kernel.cycles * times;
    kernel.codeBytes = 0;
    kernel.share = model.total.cycles && kernel.total ? kernel.total / model.total.cycles : 0;
    kernel.ideal = kernel.compute_cycles === undefined ? undefined : Math.max(kernel.compute_cycles, kernel.memory_cycles);
    kernel.bound = kernel.ideal === undefined ? "" : kernel.compute_cycles >= kernel.memory_cycles ? "compute" : "memory";
    kernel.roofline = kernel.ideal !== undefined && kernel.total ? (kernel.ideal * times) / kernel.total : undefined;
    if (!model.isMeasured) continue;
    kernel.measured = sum(kernel.steps, (step) => step.measured || 0);
    // A profile has measured what its machine can do at most.
    const profiled = model.profiled.get(kernel.name) || {};
    Object.assign(kernel, { roofline: profiled.roofline, bound: profiled.bound || "" });
  }
  for (const symbol of raw.code) if (symbol.kernel !== undefined) model.kernels[symbol.kernel].codeBytes += symbol.bytes;
  model.arena = raw.functions.length ? raw.functions[0].arena || 0 : 0;
  model.outputBytes = sum(raw.sections || [], (section) => section.bytes);
  model.runKernels = model.kernels.filter((kernel) => kernel.steps.length);
}

/**
 * A node that no kernel computes by itself: a view that is part of how others read, or something that
 * was known when the model was compiled. Views go where their readers are.
 */
function dissolve(model) {
  const users = model.nodes.map(() => []);
  for (const node of model.nodes) for (const input of node.inputs || []) users[input].push(node);
  const fold = model.nodes.map((node) => node.op !== "input" && node.op !== "output" && (node.inputs || []).length === 0);
  for (const node of model.nodes) {
    const inputs = node.inputs || [];
    if (inputs.length && inputs.every((input) => fold[input] && !model.nodes[input].steps.length)) fold[node.number] = true;
  }
  for (const node of [...model.nodes].reverse()) {
    if (node.steps.length || node.op === "input" || node.op === "output") continue;
    node.isKnown = fold[node.number];
    node.readers = [...new Set(users[node.number].flatMap((user) => (user.steps.length ? user.steps : user.readers || [])))].slice(0, 64);
  }
}

const isInputOrOutput = (node) => node.op === "input" || node.op === "output";

function describeFate(node) {
  if (node.op === "input") return "an input of the program";
  if (node.op === "output") return "what the program returns";
  if (node.steps.length) return "computed in " + [...new Set(node.steps.map((step) => step.name))].slice(0, 4).join(", ");
  if (node.isKnown) return "known when the model was compiled";
  if (node.readers.length) return "part of how " + [...new Set(node.readers.map((step) => step.name))].slice(0, 4).join(", ") + " reads";
  return "computes nothing in a run";
}

/** Without the namespace of PyTorch's own operators and without the overload. */
const opName = (op) => op.replace(/^aten\./, "").replace(/(\w)\.[A-Za-z_]\w*$/, "$1");

function placeOf(model, node) {
  return node.file === undefined ? "" : baseName(model.raw.files[node.file]) + ":" + node.line;
}

/** As in the program: the first node of a step is the one that it is named after. */
const inOrder = (nodes) => [...nodes].sort((a, b) => a.number - b.number);

/** The nodes of a step in a few words. */
function describeNodes(nodes, most) {
  const ops = inOrder(nodes).filter((node) => !isInputOrOutput(node)).map((node) => opName(node.op));
  const shown = ops.slice(0, most || 4).join(" + ");
  return ops.length > (most || 4) ? shown + " + " + (ops.length - (most || 4)) : shown;
}
