// Memory over the steps of a run: each buffer at its place for as long as it lives.

function arenaSection(model, select, name) {
  const functions = model.functions.filter((entry) => entry.buffers.length);
  if (!functions.length) return el("p", { class: "muted" }, "No buffer lies in the arena: results are inputs of no other kernel.");
  const holder = el("div", {});
  const show = (entry) => holder.replaceChildren(arenaOf(model, entry, select));
  show(functions[0]);
  return el("div", {},
    functions.length > 1 && el("label", {}, "Graph ", el("select", { "aria-label": (name || "") + " graph of the arena", onchange: (event) => show(functions[event.target.selectedIndex]) }, functions.map((entry) => el("option", {}, entry.name)))),
    holder);
}

function arenaOf(model, entry, select) {
  const placed = entry.buffers.filter((buffer) => buffer.offset !== undefined && !buffer.segment), late = entry.buffers.length - placed.length;
  const height = Math.max(entry.arena || 0, ...placed.map((buffer) => buffer.offset + buffer.bytes), 1), steps = Math.max(1, entry.steps.length);
  const live = new Float64Array(steps + 1);
  for (const buffer of placed) for (let step = buffer.first; step <= Math.min(buffer.last, steps - 1); ++step) live[step] += buffer.bytes;
  const peak = Math.max(...live), peakStep = live.indexOf(peak), all = sum(placed, (buffer) => buffer.bytes);
  const total = 1000, tall = 300, left = 64, bottom = 30, sx = (total - left - 10) / steps, sy = (tall - bottom - 10) / height;
  const px = (step) => left + step * sx, py = (bytes) => tall - bottom - bytes * sy;
  const unit = 10 ** Math.floor(Math.log10(height)), marks = [];
  const step = height / unit > 5 ? 2 * unit : height / unit > 2 ? unit : unit / 2;
  for (let bytes = 0; bytes <= height; bytes += step) marks.push(bytes);
  let line = "";
  for (let i = 0; i < steps; ++i) line += `${i ? "L" : "M"}${px(i).toFixed(1)} ${py(live[i]).toFixed(1)} H${px(i + 1).toFixed(1)} `;
  const makerOf = (buffer) => (buffer.maker === undefined ? null : entry.steps[buffer.maker]);
  return el("div", {},
    el("p", {}, el("b", {}, formatBytes(entry.arena || height)), entry.arena_text ? ` (${entry.arena_text} bytes)` : "", ` for ${plural(placed.length, "buffer")} of ${formatBytes(all)} in all; at most ${formatBytes(peak)} are alive, at step ${peakStep}`,
      entry.steps[peakStep] ? ` (${entry.steps[peakStep].name})` : "", ".", late ? ` ${plural(late, "buffer")} more in memory whose size only data knows.` : ""),
    el("figure", { class: "chart wide" }, svg("svg", { viewBox: `0 0 ${total} ${tall}`, role: "img", "aria-label": `The arena over ${steps} steps: ${formatBytes(height)}, at most ${formatBytes(peak)} alive` },
      marks.map((bytes) => [svg("line", { class: "grid", x1: left, x2: total - 10, y1: py(bytes), y2: py(bytes) }), svg("text", { class: "tick", x: left - 8, y: py(bytes) + 4, "text-anchor": "end" }, formatBytes(bytes))]),
      placed.map((buffer) => {
        const maker = makerOf(buffer);
        const words = `${buffer.type}, ${formatBytes(buffer.bytes)} at ${formatBytes(buffer.offset)}, steps ${buffer.first} to ${buffer.last}` + (maker ? `, written by ${maker.name} (${describeNodes(maker.nodes, 3)})` : "");
        return svg("rect", { class: "buffer", style: `--hue:${hueOf(maker ? maker.name : buffer.type)}`, x: px(buffer.first), y: py(buffer.offset + buffer.bytes), width: Math.max(1, (buffer.last - buffer.first + 1) * sx), height: Math.max(0.6, buffer.bytes * sy), onclick: () => maker && select({ step: maker }) }, svg("title", {}, words));
      }),
      svg("path", { class: "live", d: line }),
      [0, 0.25, 0.5, 0.75, 1].map((share) => svg("text", { class: "tick", x: px(share * steps), y: tall - bottom + 16, "text-anchor": share === 1 ? "end" : "middle" }, Math.round(share * steps))),
      svg("text", { class: "axis", x: (left + total) / 2, y: tall - 2, "text-anchor": "middle" }, "step of the run")),
    el("figcaption", {}, "Boxes are buffers, in the color of the kernel that writes them; the line is what is alive. Click a box to see its kernel.")),
    el("details", {}, el("summary", {}, "The buffers as a table"), sortedTable({
      label: "Buffers", rows: entry.buffers, most: 30, sort: 1,
      columns: [
        { title: "Buffer", value: (buffer) => buffer.type, cell: (buffer) => el("code", {}, buffer.type) },
        { title: "Bytes", kind: "number", value: (buffer) => buffer.bytes, cell: (buffer) => formatBytes(buffer.bytes) + (buffer.bytes_text ? " (guess)" : "") },
        { title: "At", kind: "number", value: (buffer) => buffer.offset, cell: (buffer) => (buffer.offset === undefined ? "–" : formatBytes(buffer.offset)) },
        { title: "From step", kind: "number", value: (buffer) => buffer.first, cell: (buffer) => buffer.first },
        { title: "To step", kind: "number", value: (buffer) => buffer.last, cell: (buffer) => buffer.last },
        { title: "Written by", value: (buffer) => makerOf(buffer)?.name || "", cell: (buffer) => makerOf(buffer)?.name || "" },
      ],
    })));
}
