// Findings of costs that might be avoided, in groups of the same kind and reason.

const findingKinds = {
  call: ["Calls of libraries", "Operators that the compiler has no kernel for, or that C functions compute."],
  copy: ["Copies", "Data that is moved without being changed."],
  scalar: ["Loops without vectors", "Kernels that compute one element at a time."],
  instruction: ["Faster instructions missed", "Instructions of the machine that a kernel could not use."],
  packing: ["Operands that are not packed", "Right operands of products that are read as they are."],
  folding: ["Computed in every run", "Values of constants that were not computed ahead of time."],
  fusion: ["Not fused", "Results that go through memory to their readers."],
  other: ["Other", "What passes have left, for reasons of their own."],
};

/** Findings that differ in their nodes alone. */
function groupFindings(model) {
  const groups = new Map();
  for (const finding of model.raw.findings) {
    const text = finding.text.replace(/node '[^']*'( \([^)]*\))?/g, "another node").replace(/@\S+/g, "@…");
    const key = [finding.kind, finding.reason || "", text].join("\n");
    if (!groups.has(key)) groups.set(key, { kind: findingKinds[finding.kind] ? finding.kind : "other", text, reason: finding.reason || "", pass: finding.pass, list: [] });
    groups.get(key).list.push(finding);
  }
  const order = Object.keys(findingKinds);
  return [...groups.values()].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind) || b.list.length - a.list.length);
}

function findingsSection(model, select) {
  const groups = groupFindings(model);
  if (!groups.length) return el("p", { class: "muted" }, "None: no copies, no scalar loops, no calls of libraries, and everything that could be fused is.");
  return el("div", { class: "findings" }, Object.keys(findingKinds).map((kind) => {
    const own = groups.filter((group) => group.kind === kind);
    if (!own.length) return null;
    const [title, help] = findingKinds[kind];
    return el("section", { class: "finding-kind" }, el("h3", {}, title, el("span", { class: "chip" }, formatCount(sum(own, (group) => group.list.length)))), el("p", { class: "muted" }, help),
      own.map((group) => el("details", {},
        el("summary", {}, el("b", {}, group.list.length === 1 ? shortenPaths(group.list[0].text) : `${group.list.length} × ${group.text}`), group.reason ? [": ", group.reason] : "", group.pass ? el("span", { class: "muted" }, ` [${group.pass}]`) : ""),
        el("ul", {}, group.list.slice(0, 100).map((finding) => el("li", {}, findingPlace(model, finding, select), " ", shortenPaths(finding.text))), group.list.length > 100 && el("li", {}, `and ${group.list.length - 100} more`)))));
  }));
}

const shortenPaths = (text) => text.replace(/\([^()]*\/([^()/]+:\d+)\)/g, "($1)");

function findingPlace(model, finding, select) {
  const node = finding.node === undefined ? null : model.nodes[finding.node], kernel = finding.kernel === undefined ? null : model.kernels[finding.kernel];
  return [kernel && kernel.steps.length && [stepButton(kernel.steps[0], select), " "], node && [el("button", { type: "button", class: "link", onclick: () => select({ node }) }, node.name), el("span", { class: "muted" }, " " + placeOf(model, node))]];
}
