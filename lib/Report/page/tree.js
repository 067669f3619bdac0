// Graphs as trees of Python modules, whose inner nodes can be folded.

const mostLeaves = 120, leavesOfPart = 60;

/**
 * `leaves` are {key, module, inputs, label, title, time, …} in order; `inputs` are numbers of leaves. The
 * result's nodes have `children` (modules) or are leaves.
 */
function buildTree(modules, leaves, title) {
  const root = { label: title, type: "", path: "", children: [], parent: null, isOpen: true, key: "root" };
  const groups = new Map();
  const groupOf = (module) => {
    if (module === undefined || module < 0) return root;
    let group = groups.get(module);
    if (!group) {
      const { path, type, parent } = modules[module];
      const outer = groupOf(parent);
      const label = outer.path && path.startsWith(outer.path + ".") ? path.slice(outer.path.length + 1) : path;
      group = { label: label || baseType(type), type, path, children: [], parent: outer, isOpen: false, key: "m" + module };
      groups.set(module, group);
      outer.children.push(group);
    }
    return group;
  };
  leaves.forEach((leaf, number) => {
    Object.assign(leaf, { number, isLeaf: true, parent: groupOf(leaf.module) });
    leaf.parent.children.push(leaf);
  });
  finishTree(root);
  while (root.children.length === 1 && !root.children[0].isLeaf) {
    const only = root.children[0];
    Object.assign(root, { children: only.children, type: root.type || only.type, path: only.path });
    for (const child of root.children) child.parent = root;
  }
  return { root, leaves };
}

const baseType = (type) => type.slice(type.lastIndexOf(".") + 1);

/** Orders children by their first leaf, shortens chains, and cuts long lists of leaves into parts. */
function finishTree(group) {
  for (const child of group.children) if (!child.isLeaf) finishTree(child);
  group.children.forEach((child, i) => {
    // A module that holds nothing but another one.
    while (!child.isLeaf && child.children.length === 1 && !child.children[0].isLeaf) {
      const inner = child.children[0];
      inner.label = child.label + "." + inner.label;
      inner.parent = group;
      group.children[i] = child = inner;
    }
    // A module of one node is that node.
    if (!child.isLeaf && child.children.length === 1) {
      const [leaf] = child.children;
      Object.assign(leaf, { parent: group, label: leaf.isNamed ? leaf.label : `${child.label} · ${leaf.label}`, isNamed: true });
      group.children[i] = leaf;
    }
  });
  group.children.sort((a, b) => firstLeaf(a) - firstLeaf(b));
  const own = group.children.filter((child) => child.isLeaf);
  if (own.length > mostLeaves) cutIntoParts(group, own);
  group.first = Math.min(...group.children.map(firstLeaf));
  group.count = sum(group.children, (child) => (child.isLeaf ? 1 : child.count));
  group.time = sum(group.children, (child) => child.time || 0);
}

const firstLeaf = (item) => (item.isLeaf ? item.number : item.first);

/** Parts have the leaves of a stretch, as even as can be; parts of parts if there are too many. */
function cutIntoParts(group, own) {
  let parts = [];
  for (let i = 0; i < own.length; i += leavesOfPart) parts.push(own.slice(i, i + leavesOfPart));
  let level = 0;
  while (parts.length) {
    const made = parts.map((children) => {
      const part = { label: "", type: "", path: "", children, parent: group, isOpen: false, isPart: true };
      part.first = firstLeaf(children[0]);
      part.last = Math.max(...children.map((child) => (child.isLeaf ? child.number : child.last)));
      part.key = "p" + level + ":" + part.first;
      part.label = `nodes ${part.first + 1}–${part.last + 1}`;
      part.count = sum(children, (child) => (child.isLeaf ? 1 : child.count));
      part.time = sum(children, (child) => child.time || 0);
      for (const child of children) child.parent = part;
      return part;
    });
    if (made.length <= leavesOfPart) {
      group.children = [...group.children.filter((child) => !child.isLeaf), ...made].sort((a, b) => firstLeaf(a) - firstLeaf(b));
      return;
    }
    ++level;
    parts = [];
    for (let i = 0; i < made.length; i += leavesOfPart) parts.push(made.slice(i, i + leavesOfPart));
  }
}

/** The innermost box that is drawn for a leaf: itself, or a folded module around it. */
function shownBox(leaf) {
  let shown = leaf;
  for (let group = leaf.parent; group; group = group.parent) if (!group.isOpen) shown = group;
  return shown;
}

function openAround(leaf) {
  for (let group = leaf.parent; group; group = group.parent) group.isOpen = true;
}

/** Unfolds level by level while there is not much to draw. */
function openSome(root, most) {
  let level = [root], shown = root.children.length;
  root.isOpen = true;
  while (level.length) {
    const next = level.flatMap((group) => group.children.filter((child) => !child.isLeaf && !child.isPart));
    const added = sum(next, (group) => group.children.length);
    if (!next.length || shown + added > most) return;
    for (const group of next) group.isOpen = true;
    shown += added;
    level = next;
  }
}

/** Sizes and places of everything that is drawn, from the inside out. */
function layoutTree(tree) {
  tree.routes = [];
  placeGroup(tree.root, tree, collectEdges(tree));
  const shift = (group, dx, dy) => {
    for (const child of group.children) {
      child.ax = child.x + dx;
      child.ay = child.y + dy;
      if (!child.isLeaf && child.isOpen) shift(child, child.ax - child.w / 2 + padding, child.ay - child.h / 2 + titleHeight);
    }
    for (const route of group.routes) tree.routes.push(route.map(([x, y]) => [x + dx, y + dy]));
  };
  shift(tree.root, padding, padding);
  return { w: tree.root.w, h: tree.root.h };
}

const padding = 16, titleHeight = 34;

/** For each open module, edges between its children, and from and to what is outside. */
function collectEdges(tree) {
  const edges = new Map();
  const add = (group, from, to) => {
    let list = edges.get(group);
    if (!list) edges.set(group, (list = new Map()));
    list.set(from.key + ">" + to.key, [from, to]);
  };
  const pathOf = (leaf) => {
    const path = [];
    for (let item = leaf; item; item = item.parent) path.push(item);
    return path.reverse();
  };
  const outside = { key: "outside" };
  for (const leaf of tree.leaves) {
    if (!leaf.inputs.length) continue;
    const to = pathOf(leaf);
    for (const input of leaf.inputs) {
      const from = pathOf(tree.leaves[input]);
      let level = 0;
      while (from[level + 1] === to[level + 1]) ++level;
      if (isShown(from, level)) add(from[level], from[level + 1], to[level + 1]);
      for (let i = level + 1; i + 1 < to.length && isShown(to, i); ++i) add(to[i], outside, to[i + 1]);
      for (let i = level + 1; i + 1 < from.length && isShown(from, i); ++i) add(from[i], from[i + 1], outside);
    }
  }
  return edges;
}

const isShown = (path, level) => {
  for (let i = 0; i <= level; ++i) if (!path[i].isOpen) return false;
  return true;
};

function placeGroup(group, tree, edges) {
  for (const child of group.children) {
    if (child.isLeaf || !child.isOpen) Object.assign(child, boxSize(child));
    else placeGroup(child, tree, edges);
  }
  // Values from outside enter at the top, in a box without size, and leave at the bottom.
  const own = [...(edges.get(group) || new Map()).values()];
  const boxes = group.children.map((child) => ({ w: child.w, h: child.h }));
  const numbers = new Map(group.children.map((child, i) => [child.key, i + 1]));
  const entry = { w: 0, h: 0 }, exit = { w: 0, h: 0 };
  const hasEntry = own.some(([from]) => from.key === "outside"), hasExit = own.some(([, to]) => to.key === "outside");
  const all = [entry, ...boxes, exit];
  const pairs = own.map(([from, to]) => [from.key === "outside" ? 0 : numbers.get(from.key), to.key === "outside" ? all.length - 1 : numbers.get(to.key)]);
  const used = all.slice(hasEntry ? 0 : 1, hasExit ? all.length : all.length - 1), base = hasEntry ? 0 : 1;
  const size = layoutLayers(used, pairs.map(([from, to]) => [from - base, to - base]));
  group.children.forEach((child, i) => Object.assign(child, { x: boxes[i].x, y: boxes[i].y }));
  group.routes = size.routes;
  const label = textWidth(group.label, 13) + textWidth(baseType(group.type), 11) + 90;
  group.w = Math.max(size.w, label) + 2 * padding;
  group.h = size.h + titleHeight + padding;
  const spare = (group.w - 2 * padding - size.w) / 2;
  for (const child of group.children) child.x += spare;
  group.routes = group.routes.map((route) => route.map(([x, y]) => [x + spare, y]));
}

const textWidth = (text, size) => text.length * size * 0.6;

function boxSize(item) {
  const width = Math.max(textWidth(item.label, 12), textWidth(item.isLeaf ? item.title || "" : baseType(item.type), 10.5));
  return item.isLeaf ? { w: Math.min(250, Math.max(70, width + 24 + (item.time ? 30 : 0))), h: 40 } : { w: Math.min(280, Math.max(130, width + 80)), h: 50 };
}
