// Tables that can be sorted, and sections that are lists of sizes.

/** `columns` are {title, value(row) to sort by, cell(row), kind: "number"|""}; `detail(row)` opens below a row. */
function sortedTable(options) {
  const { columns, rows, most = 60, detail, label } = options;
  let sorted = options.sort ?? 0, isDown = true, limit = most;
  const body = el("tbody", {}), more = el("div", { class: "more" });
  const heads = columns.map((column, i) => el("th", { scope: "col", class: column.kind || "" },
    el("button", { type: "button", title: column.help || "Sort", onclick: () => { isDown = i === sorted ? !isDown : true; sorted = i; fill(); } }, column.title, el("span", { class: "arrow", "aria-hidden": "true" }))));
  function fill() {
    heads.forEach((head, i) => {
      head.setAttribute("aria-sort", i === sorted ? (isDown ? "descending" : "ascending") : "none");
      head.querySelector(".arrow").textContent = i === sorted ? (isDown ? "▾" : "▴") : "";
    });
    const value = columns[sorted].value, missing = (row) => { const v = value(row); return v === undefined || v === null; };
    const order = [...rows].sort((a, b) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b);
      const x = value(a), y = value(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (typeof x === "string" ? (isDown ? 1 : -1) : isDown ? -1 : 1);
    });
    body.replaceChildren(...order.slice(0, limit).map(line).flat());
    more.replaceChildren(...(order.length > limit ? [el("button", { type: "button", onclick: () => { limit = Infinity; fill(); } }, `Show all ${formatCount(order.length)}`)] : []));
  }
  function line(row) {
    const cells = columns.map((column, i) => el(i === 0 ? "th" : "td", { class: column.kind || "", scope: i === 0 ? "row" : null }, column.cell(row)));
    if (!detail) return [el("tr", {}, cells)];
    const inner = el("td", { colspan: columns.length }), below = el("tr", { class: "detail", hidden: true }, inner);
    const opener = el("button", { type: "button", class: "opener", "aria-expanded": "false", "aria-label": "Details", onclick: () => {
      below.hidden = !below.hidden;
      opener.setAttribute("aria-expanded", String(!below.hidden));
      if (!inner.firstChild) inner.append(detail(row));
    } }, "▸");
    cells[0].prepend(opener);
    return [el("tr", { "data-row": row.key ?? null }, cells), below];
  }
  fill();
  return el("div", { class: "table", role: "region", "aria-label": label, tabindex: "0" }, el("table", {}, el("thead", {}, el("tr", {}, heads)), body), more);
}

/** One bar of several parts. */
function stack(parts, format) {
  const total = sum(parts, (part) => part.value) || 1;
  return el("div", { class: "stack" },
    el("div", { class: "stack-bar", role: "img", "aria-label": parts.map((part) => `${part.name}: ${format(part.value)}`).join(", ") },
      parts.filter((part) => part.value > 0).map((part, i) => el("span", { style: `width:${(part.value / total) * 100}%;--tone:${i}`, class: "tone" + (i % 8), title: `${part.name}: ${format(part.value)}` }))),
    el("ul", { class: "legend" }, parts.filter((part) => part.value > 0).map((part, i) => el("li", {}, el("i", { class: "tone" + (i % 8) }), part.name + " ", el("b", {}, format(part.value)), " " + formatShare(part.value / total)))));
}

function describePacking(weight) {
  if (weight.panel) return `panels of ${weight.panel} columns`;
  if (weight.fold) return "computed ahead of time";
  return weight.mutated ? "written by runs" : "as it was";
}

const weightName = (weight) => weight.name || (weight.sources || []).join(", ") || weight.fold || "constant";

function weightsSection(model) {
  const weights = model.raw.weights, total = sum(weights, (weight) => weight.bytes) || 1;
  const kinds = new Map();
  for (const weight of weights) kinds.set(describePacking(weight), (kinds.get(describePacking(weight)) || 0) + weight.bytes);
  if (!weights.length) return el("p", { class: "muted" }, "The model carries no weights.");
  return el("div", {},
    el("p", {}, `${plural(weights.length, "tensor")}, ${formatBytes(model.raw.weights_bytes)} in the output.`),
    stack([...kinds].sort((a, b) => b[1] - a[1]).map(([name, value]) => ({ name, value })), formatBytes),
    sortedTable({
      label: "Weights", rows: weights, most: 25, sort: 1,
      columns: [
        { title: "Weight", value: weightName, cell: (weight) => el("span", { class: "path" }, weightName(weight)) },
        { title: "Bytes", kind: "number", value: (weight) => weight.bytes, cell: (weight) => formatBytes(weight.bytes) },
        { title: "Share", kind: "share", value: (weight) => weight.bytes, cell: (weight) => [bar(weight.bytes / total), formatShare(weight.bytes / total)] },
        { title: "In memory", value: (weight) => weight.type, cell: (weight) => el("code", {}, weight.type) },
        { title: "Packing", value: describePacking, cell: (weight) => [describePacking(weight), weight.fold ? el("span", { class: "muted" }, ` by ${weight.fold}`) : ""] },
      ],
    }));
}

function sizesSection(model) {
  const { code, sections } = model.raw, total = sum(code, (symbol) => symbol.bytes) || 1;
  const kindOf = (symbol) => (symbol.kernel === undefined ? (symbol.section === "code" ? "host program" : "tables") : model.kernels[symbol.kernel].fold ? "kernel that folds constants" : "kernel");
  const parts = [];
  if (sections) {
    const of = (names) => sum(sections.filter((section) => names.some((name) => section.name.startsWith(name))), (section) => section.bytes);
    const known = [["weights", [".kiln_weights"]], ["code", [".text", ".plt", ".init", ".fini"]], ["read-only data", [".rodata", ".eh_frame"]], ["data", [".data", ".got", ".dynamic"]], ["relocations and names", [".rela", ".dyn", ".gnu", ".strtab", ".symtab"]]];
    for (const [name, names] of known) parts.push({ name, value: of(names) });
    parts.push({ name: "other", value: Math.max(0, model.outputBytes - sum(parts, (part) => part.value)) });
  }
  if (!code.length) return el("p", { class: "muted" }, "No machine code was made.");
  return el("div", {},
    sections && [el("p", {}, `The output has ${formatBytes(model.outputBytes)}; without its weights `, el("b", {}, formatBytes(model.outputBytes - parts[0].value)), ":"), stack(parts.slice(1), formatBytes)],
    el("p", {}, `${plural(code.length, "symbol")} of the model's own, ${formatBytes(total)}; what is left of the code is the runtime's.`),
    sortedTable({
      label: "Symbols", rows: code, most: 25, sort: 1,
      columns: [
        { title: "Symbol", value: (symbol) => symbol.name, cell: (symbol) => el("code", {}, symbol.name) },
        { title: "Bytes", kind: "number", value: (symbol) => symbol.bytes, cell: (symbol) => formatBytes(symbol.bytes) },
        { title: "Share", kind: "share", value: (symbol) => symbol.bytes, cell: (symbol) => [bar(symbol.bytes / total), formatShare(symbol.bytes / total)] },
        { title: "What it is", value: kindOf, cell: kindOf },
        { title: "Nodes", value: (symbol) => kernelNodes(model, symbol), cell: (symbol) => kernelNodes(model, symbol) },
      ],
    }));
}

function kernelNodes(model, symbol) {
  const kernel = symbol.kernel === undefined ? null : model.kernels[symbol.kernel];
  return kernel && kernel.steps.length ? describeNodes(kernel.steps[0].nodes) : "";
}
