// Two builds side by side: what is the same in both are nodes of the program, by their names.

const delta = (now, before) => (before ? (now - before) / before : now ? Infinity : 0);

function deltaText(now, before) {
  const change = delta(now, before);
  if (!isFinite(change)) return el("span", { class: "worse" }, "new");
  if (Math.abs(change) < 0.0005) return el("span", { class: "muted" }, "=");
  return el("span", { class: change > 0 ? "worse" : "better" }, (change > 0 ? "+" : "−") + (Math.abs(change) < 9.995 ? (100 * Math.abs(change)).toFixed(1) + " %" : "× " + digits(now / before)));
}

function compareSection(model, other, select) {
  const line = (name, value, format, isEven) => el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "number" }, format(value(other))), el("td", { class: "number" }, format(value(model))), el("td", { class: "number" }, isEven ? "" : deltaText(value(model), value(other))));
  const both = (model.raw.machine && other.raw.machine) || (model.isMeasured && other.isMeasured);
  const time = (side) => (both ? side.seconds(side.total.cycles) : side.total.cycles);
  const timeFormat = both ? formatSeconds : (cycles) => scaled(cycles, ["", "k", "M", "G"], 1000) + " cycles";
  const groups = matchSteps(model, other, both);
  return el("div", {},
    el("div", { class: "table", role: "region", "aria-label": "Totals of both builds", tabindex: "0" }, el("table", { class: "compare" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, ""), el("th", { scope: "col", class: "number" }, "other"), el("th", { scope: "col", class: "number" }, "this"), el("th", { scope: "col", class: "number" }, "change"))),
      el("tbody", {},
        el("tr", {}, el("th", { scope: "row" }, "Build"), el("td", { class: "number" }, describeBuild(other.raw)), el("td", { class: "number" }, describeBuild(model.raw)), el("td", {})),
        line("Estimated time", time, timeFormat),
        model.isMeasured && other.isMeasured && line("Measured time in kernels", (side) => side.total.measured, formatSeconds),
        line("Launches in a run", (side) => sum(side.steps, (step) => step.times), formatCount), line("Kernels", (side) => side.runKernels.length, formatCount),
        line("FLOPs", (side) => side.total.flops, formatFlops), line("Bytes moved", (side) => side.total.bytes, formatBytes),
        line("Arena", (side) => side.arena, formatBytes), line("Weights", (side) => side.raw.weights_bytes, formatBytes),
        line("Code and tables", (side) => sum(side.raw.code, (symbol) => symbol.bytes), formatBytes), line("Findings", (side) => side.raw.findings.length, formatCount)))),
    el("h3", {}, "Kernels by the nodes that they compute"),
    el("p", { class: "muted" }, "A row has the kernels of both builds that compute the same nodes; the widest change in " + (model.isMeasured && other.isMeasured ? "measured" : "estimated") + " time comes first."),
    sortedTable({
      label: "Kernels of both builds", rows: groups, most: 40, sort: 5, detail: (group) => compareDetail(group, model, other, select),
      columns: [
        { title: "Nodes", value: (group) => group.words, cell: (group) => el("span", { class: "nodes" }, group.words, el("span", { class: "muted" }, group.count > 1 ? " × " + formatCount(group.count) : " " + group.nodes)) },
        { title: "Other", value: (group) => group.otherNames, cell: (group) => el("code", {}, group.otherNames || "–") },
        { title: "Its time", kind: "number", value: (group) => group.otherTime, cell: (group) => timeFormat(group.otherTime) },
        { title: "This", value: (group) => group.names, cell: (group) => el("code", {}, group.names || "–") },
        { title: "Its time", kind: "number", value: (group) => group.time, cell: (group) => timeFormat(group.time) },
        { title: "Change", kind: "number", help: "Sort by the change in time", value: (group) => Math.abs(group.time - group.otherTime), cell: (group) => deltaText(group.time, group.otherTime) },
      ],
    }),
    el("h3", {}, "The arena"),
    el("div", { class: "pair" }, el("div", {}, el("h4", {}, "other"), arenaSection(other, () => {}, "other")), el("div", {}, el("h4", {}, "this"), arenaSection(model, select, "this"))));
}

const describeBuild = (raw) => `${raw.model}, ${raw.target}, ${raw.cpu}, -O${raw.level}, ${raw.compiler}`;

/**
 * Steps of both builds that share a node are one group. A node that several kernels of a build compute,
 * such as a mask, ties nothing together, unless a step has no other.
 */
function matchSteps(model, other, both) {
  const sides = [model, other], owners = new Map();
  const keys = (step) => step.nodes.filter((node) => !isInputOrOutput(node)).map((node) => (node.graph || 0) + ":" + node.name);
  const entries = sides.flatMap((side, which) => side.steps.map((step) => ({ which, step, keys: keys(step), group: null })));
  const uses = new Map();
  for (const entry of entries) for (const key of entry.keys) {
    const count = uses.get(key) || [0, 0];
    ++count[entry.which];
    uses.set(key, count);
  }
  const find = (entry) => { while (entry.group) entry = entry.group; return entry; };
  for (const entry of entries) {
    const own = entry.keys.filter((key) => Math.max(...uses.get(key)) === 1);
    for (const key of own.length ? own : [entry.keys.join("\n") || entry.step.name + (entry.step.where || "")]) {
      const first = owners.get(key);
      if (!first) owners.set(key, entry);
      else if (find(first) !== find(entry)) find(entry).group = find(first);
    }
  }
  const groups = new Map();
  for (const entry of entries) {
    const root = find(entry);
    if (!groups.has(root)) groups.set(root, [[], []]);
    groups.get(root)[entry.which].push(entry.step);
  }
  const isMeasured = model.isMeasured && other.isMeasured;
  const timeOf = (side, steps) => sum(steps, (step) => (isMeasured ? step.measured || 0 : step.times * (step.cycles || 0) * (both ? side.seconds(1) : 1)));
  const namesOf = (steps) => [...new Set(steps.map((step) => step.name))].slice(0, 4).join(", ") + (steps.length > 4 ? "…" : "");
  // Layers that are alike are one row.
  const rows = new Map();
  for (const [own, others] of groups.values()) {
    const first = own[0] || others[0], words = describeNodes(first.nodes) || first.kind;
    const row = { key: [words, namesOf(own), namesOf(others)].join("\n"), words, count: 0, own: [], others: [], names: namesOf(own), otherNames: namesOf(others), time: 0, otherTime: 0, nodes: inOrder(first.nodes).slice(0, 2).map((node) => node.name).join(", ") };
    const known = rows.get(row.key) || row;
    known.count += 1;
    known.own.push(...own);
    known.others.push(...others);
    known.time += timeOf(model, own);
    known.otherTime += timeOf(other, others);
    rows.set(row.key, known);
  }
  return [...rows.values()].map((row, number) => ({ ...row, key: "g" + number }));
}

function compareDetail(group, model, other, select) {
  const list = (side, steps, choose) => el("ul", { class: "launches" }, steps.length ? steps.slice(0, 50).map((step) => el("li", {}, el("code", {}, step.name), " ", model.raw.machine && step.cycles !== undefined ? side.formatTime(step.cycles * step.times) : "", el("br"), step.kernel?.schedule ? el("code", { class: "muted" }, step.kernel.schedule) : "", el("br"), stepNodes(side, step, choose))) : el("li", { class: "muted" }, "no kernel"));
  return el("div", { class: "pair" }, el("div", {}, el("h4", {}, "other"), list(other, group.others, () => {})), el("div", {}, el("h4", {}, "this"), list(model, group.own, select)));
}
