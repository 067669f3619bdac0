// Draws a tree of modules as boxes in boxes, to be zoomed, moved, folded and walked through by keys.

const mostDrawnAtOnce = 700;

class GraphView {
  /** `onSelect` gets the leaf, or null; `paint` the class and color of a leaf. */
  constructor(tree, options) {
    Object.assign(this, { tree, options, selected: null, marked: new Set(), scale: 1, dx: 0, dy: 0 });
    this.scene = svg("g", {});
    this.picture = svg("svg", { class: "graph", tabindex: "0", role: "application", "aria-label": options.label + ": arrow keys move, + and - zoom, 0 shows all, Tab goes from box to box, Enter folds and selects" }, arrowHead(), this.scene);
    const button = (text, label, action) => el("button", { type: "button", title: label, "aria-label": label, onclick: action }, text);
    this.tools = el("div", { class: "tools" },
      button("+", "Zoom in", () => this.zoom(1.3)), button("−", "Zoom out", () => this.zoom(1 / 1.3)), button("Fit", "Show all", () => this.fit()),
      button("Unfold", "Unfold one more level of modules", () => this.unfold()), button("Fold", "Fold all modules", () => this.fold()));
    this.element = el("div", { class: "pane" }, el("div", { class: "pane-head" }, el("h3", {}, options.title), this.count = el("span", { class: "muted" }), this.tools), this.picture);
    this.listen();
    openSome(tree.root, 90);
    this.layout();
  }

  listen() {
    const { picture } = this;
    picture.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = picture.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    let from = null;
    picture.addEventListener("pointerdown", (event) => { from = { x: event.clientX - this.dx, y: event.clientY - this.dy, moved: 0, startX: event.clientX, startY: event.clientY }; });
    window.addEventListener("pointermove", (event) => {
      if (!from) return;
      from.moved = Math.max(from.moved, Math.abs(event.clientX - from.startX) + Math.abs(event.clientY - from.startY));
      if (from.moved > 4) this.move(event.clientX - from.x, event.clientY - from.y);
    });
    window.addEventListener("pointerup", () => { this.wasMoved = from && from.moved > 4; from = null; });
    picture.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    const step = 60;
    const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) this.move(this.dx + moves[event.key][0], this.dy + moves[event.key][1]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (event.key === "Escape") this.options.onSelect(null);
    else return;
    event.preventDefault();
  }

  layout() {
    this.size = layoutTree(this.tree);
    this.items = [];
    const collect = (group) => {
      for (const child of group.children) {
        this.items.push(child);
        if (!child.isLeaf && child.isOpen) collect(child);
      }
    };
    collect(this.tree.root);
    this.count.textContent = plural(this.tree.leaves.length, this.options.word);
    this.draw();
  }

  /** The region of the graph that is in sight, and as much again around it. */
  sight() {
    const width = this.picture.clientWidth || 800, height = this.picture.clientHeight || 600;
    return { left: (-this.dx - width / 2) / this.scale, right: (-this.dx + 1.5 * width) / this.scale, top: (-this.dy - height / 2) / this.scale, bottom: (-this.dy + 1.5 * height) / this.scale };
  }

  draw() {
    const isAll = this.items.length + this.tree.routes.length < mostDrawnAtOnce, sight = this.sight();
    const isSeen = (left, top, right, bottom) => isAll || (right > sight.left && left < sight.right && bottom > sight.top && top < sight.bottom);
    const boxes = this.items.filter((item) => isSeen(item.ax - item.w / 2, item.ay - item.h / 2, item.ax + item.w / 2, item.ay + item.h / 2));
    // Below a few pixels a box has no text and an edge is noise.
    const legible = isAll || this.scale > 0.25;
    const shown = legible ? boxes : boxes.filter((item) => item.w * this.scale > 3);
    const routes = !legible ? [] : this.tree.routes.filter((route) => isSeen(Math.min(...route.map(([x]) => x)), route[0][1], Math.max(...route.map(([x]) => x)), route[route.length - 1][1]));
    const focused = document.activeElement && this.scene.contains(document.activeElement) ? document.activeElement.getAttribute("data-key") : null;
    this.scene.replaceChildren(...shown.filter((item) => !item.isLeaf && item.isOpen).map((item) => this.drawGroup(item)),
      svg("g", { class: "edges" }, routes.map((route) => svg("path", { d: curve(route), "marker-end": "url(#arrow)" }))),
      ...shown.filter((item) => item.isLeaf || !item.isOpen).map((item) => (item.isLeaf ? this.drawLeaf(item) : this.drawGroup(item))));
    if (focused) this.scene.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    this.drawnFor = isAll ? null : { ...sight, scale: this.scale };
    this.transform();
  }

  transform() {
    this.scene.setAttribute("transform", `translate(${this.dx.toFixed(2)} ${this.dy.toFixed(2)}) scale(${this.scale.toFixed(4)})`);
    const drawn = this.drawnFor;
    if (!drawn || this.pending) return;
    const width = (this.picture.clientWidth || 800) / this.scale, left = -this.dx / this.scale, top = -this.dy / this.scale, height = (this.picture.clientHeight || 600) / this.scale;
    if (left < drawn.left || left + width > drawn.right || top < drawn.top || top + height > drawn.bottom || Math.abs(Math.log(this.scale / drawn.scale)) > 0.4) {
      this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
    }
  }

  drawGroup(group) {
    const { ax, ay, w, h } = group, type = group.isPart ? "" : baseType(group.type);
    const share = this.options.total ? group.time / this.options.total : 0;
    const label = `${group.label}${type ? ", " + type : ""}: ${plural(group.count, this.options.word)}${share ? ", " + formatShare(share) + " of the time" : ""}`;
    return svg("g", { class: "group" + (group.isOpen ? " open" : "") + (this.marks(group) ? " marked" : ""), transform: `translate(${ax - w / 2} ${ay - h / 2})`, ...this.pressable(group, label, () => this.toggle(group)), "aria-expanded": String(group.isOpen) },
      svg("title", {}, label),
      svg("rect", { width: w, height: h, rx: 8 }),
      svg("text", { class: "label", x: 12, y: 21 }, (group.isOpen ? "▾ " : "▸ ") + group.label, svg("tspan", { class: "type", dx: 8 }, group.isOpen ? type : "")),
      !group.isOpen && svg("text", { class: "type", x: 12, y: 39 }, cut(type || plural(group.count, this.options.word), w - 74, 10.5)),
      share > 0.0005 && svg("text", { class: "share", x: w - 12, y: group.isOpen ? 21 : 39, "text-anchor": "end" }, formatShare(share)),
      share > 0 && !group.isOpen && svg("rect", { class: "heat", x: 0, y: h - 3, height: 3, width: w * Math.min(1, share) }));
  }

  drawLeaf(leaf) {
    const { ax, ay, w, h } = leaf, look = this.options.paint(leaf);
    const share = this.options.total && leaf.time ? leaf.time / this.options.total : 0;
    return svg("g", { class: `leaf ${look.kind}` + (this.selected === leaf ? " selected" : "") + (this.marked.has(leaf.number) ? " marked" : ""), transform: `translate(${ax - w / 2} ${ay - h / 2})`, ...this.pressable(leaf, look.words, () => this.options.onSelect(leaf)) },
      svg("title", {}, look.words),
      svg("rect", { width: w, height: h, rx: 5 }),
      look.hue !== undefined && svg("rect", { class: "stripe", width: 4, height: h, rx: 2, style: `--hue:${look.hue}` }),
      svg("text", { class: "label", x: 12, y: 17 }, cut(leaf.label, w - 18, 12)),
      svg("text", { class: "type", x: 12, y: 32 }, cut(leaf.title || "", w - (share > 0.0005 ? 60 : 18), 10.5)),
      share > 0.0005 && svg("text", { class: "share", x: w - 8, y: 32, "text-anchor": "end" }, formatShare(share)));
  }

  pressable(item, label, action) {
    const run = (event) => {
      if (event.type === "click" && this.wasMoved) return;
      if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation();
      action();
    };
    return { tabindex: "0", role: "button", "aria-label": label, "data-key": item.isLeaf ? "l" + item.number : item.key, onclick: run, onkeydown: run };
  }

  /** A folded module in which something is marked. */
  marks(group) {
    return !group.isOpen && [...this.marked].some((number) => shownBox(this.tree.leaves[number]) === group);
  }

  toggle(group) {
    group.isOpen = !group.isOpen;
    const x = group.ax * this.scale + this.dx, y = (group.ay - group.h / 2) * this.scale + this.dy;
    this.layout();
    // The box that was pressed stays where it is.
    this.move(x - group.ax * this.scale, y - (group.ay - group.h / 2) * this.scale);
  }

  unfold() {
    let level = [this.tree.root];
    while (level.length && level.every((group) => group.isOpen)) level = level.flatMap((group) => group.children.filter((child) => !child.isLeaf));
    for (const group of level) group.isOpen = true;
    this.layout();
    this.start();
  }

  fold() {
    const close = (group) => { for (const child of group.children) if (!child.isLeaf) { child.isOpen = false; close(child); } };
    close(this.tree.root);
    this.layout();
    this.fit();
  }

  move(dx, dy) {
    Object.assign(this, { dx, dy });
    this.transform();
  }

  zoom(factor, x, y) {
    x ??= this.picture.clientWidth / 2;
    y ??= this.picture.clientHeight / 2;
    const scale = Math.max(0.01, Math.min(4, this.scale * factor));
    this.dx = x - ((x - this.dx) * scale) / this.scale;
    this.dy = y - ((y - this.dy) * scale) / this.scale;
    this.scale = scale;
    this.transform();
  }

  fit() {
    const width = this.picture.clientWidth || 800, height = this.picture.clientHeight || 600;
    // So small that boxes are gone helps nobody: of a graph that large it is the top.
    this.scale = Math.max(0.04, Math.min(1, width / (this.size.w + 8), height / (this.size.h + 8)));
    this.move((width - this.size.w * this.scale) / 2, Math.max(4, (height - this.size.h * this.scale) / 2));
    this.draw();
  }

  /** The first look: as large as can be read, from the top. */
  start() {
    const width = this.picture.clientWidth || 800;
    this.fit();
    if (this.scale >= 0.6) return;
    this.scale = Math.max(0.6, Math.min(1, width / (this.size.w + 8)));
    this.move((width - this.size.w * this.scale) / 2, 4);
    this.draw();
  }

  show(leaf) {
    openAround(leaf);
    this.layout();
    const width = this.picture.clientWidth || 800, height = this.picture.clientHeight || 600;
    this.scale = Math.max(this.scale, 0.8);
    this.move(width / 2 - leaf.ax * this.scale, height / 2 - leaf.ay * this.scale);
    this.draw();
  }

  mark(selected, numbers) {
    this.selected = selected;
    this.marked = new Set(numbers);
    this.draw();
  }
}

const arrowHead = () => svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, svg("path", { d: "M0 0 L8 4 L0 8 z", class: "head" })));

function curve(points) {
  let path = `M${points[0][0].toFixed(1)} ${points[0][1].toFixed(1)}`;
  for (let i = 1; i < points.length; ++i) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], middle = (y0 + y1) / 2;
    path += ` C${x0.toFixed(1)} ${middle.toFixed(1)} ${x1.toFixed(1)} ${middle.toFixed(1)} ${x1.toFixed(1)} ${y1.toFixed(1)}`;
  }
  return path;
}

function cut(text, width, size) {
  const most = Math.max(1, Math.floor(width / (size * 0.58)));
  return text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text;
}
