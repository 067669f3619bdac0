// Places boxes in layers, from top to bottom: what a box needs is above it.

const layerGap = 30, boxGap = 18, mostCrossingBoxes = 20000, mostLayersRouted = 60;

/**
 * Gives each box of {w, h} its center {x, y}; `edges` are pairs of box numbers, and those to an
 * earlier box are drawn upwards. Returns the size of all and the points of each edge.
 */
function layoutLayers(boxes, edges) {
  if (!boxes.length) return { w: 0, h: 0, routes: [] };
  const forward = edges.filter(([from, to]) => from < to).sort((a, b) => a[1] - b[1]);
  const layers = assignLayers(boxes.length, forward);
  const graph = addRoutes(boxes, edges, layers);
  const rows = orderLayers(graph);
  const width = placeAcross(graph, rows);
  let y = 0;
  for (const row of rows) {
    const height = Math.max(0, ...row.map((cell) => cell.h));
    for (const cell of row) cell.y = y + height / 2;
    y += height + layerGap;
  }
  boxes.forEach((box, i) => Object.assign(box, { x: graph.cells[i].x, y: graph.cells[i].y }));
  const routes = edges.map(([from, to], i) => {
    const middle = (graph.chains[i] || []).map((cell) => [cell.x, cell.y]);
    return [[boxes[from].x, boxes[from].y + boxes[from].h / 2], ...middle, [boxes[to].x, boxes[to].y - boxes[to].h / 2]];
  });
  return { w: width, h: y - layerGap, routes };
}

function assignLayers(count, edges) {
  const layers = new Int32Array(count), inputs = Array.from({ length: count }, () => []), outputs = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) {
    inputs[to].push(from);
    outputs[from].push(to);
    layers[to] = Math.max(layers[to], layers[from] + 1);
  }
  // Boxes that need nothing, and chains of them that one box reads, stand right above their reader.
  const floats = new Uint8Array(count);
  for (let i = 0; i < count; ++i) floats[i] = inputs[i].every((input) => floats[input] && outputs[input].length === 1) ? 1 : 0;
  for (let i = count - 1; i >= 0; --i)
    if (floats[i] && outputs[i].length) layers[i] = Math.max(layers[i], Math.min(...outputs[i].map((output) => layers[output])) - 1);
  return layers;
}

/** Cells are the boxes and the bends of long edges; edges from one box share their bends. */
function addRoutes(boxes, edges, layers) {
  const cells = boxes.map((box, i) => ({ w: box.w, h: box.h, layer: layers[i], up: [], down: [], weight: 1 }));
  const chains = [], bends = new Map();
  let added = 0;
  const link = (from, to) => {
    if (from.down.includes(to)) return;
    from.down.push(to);
    to.up.push(from);
  };
  edges.forEach(([from, to], number) => {
    const span = layers[to] - layers[from];
    if (span < 1) return;
    if (span > mostLayersRouted || added > mostCrossingBoxes) return;
    let last = cells[from];
    const chain = [];
    for (let layer = layers[from] + 1; layer < layers[to]; ++layer) {
      const key = from + ":" + layer;
      let bend = bends.get(key);
      if (!bend) {
        bend = { w: 6, h: 0, layer, up: [], down: [], weight: 4 };
        bends.set(key, bend);
        cells.push(bend);
        ++added;
      }
      link(last, bend);
      chain.push(bend);
      last = bend;
    }
    link(last, cells[to]);
    chains[number] = chain;
  });
  return { cells, chains };
}

/** Rows of cells, in an order in which few edges cross. */
function orderLayers({ cells }) {
  const rows = [];
  for (const cell of cells) (rows[cell.layer] ||= []).push(cell);
  for (let i = 0; i < rows.length; ++i) rows[i] ||= [];
  const number = (row) => row.forEach((cell, i) => (cell.rank = (i + 0.5) / row.length));
  rows.forEach(number);
  const sweeps = cells.length > 4000 ? 2 : 8;
  for (let sweep = 0; sweep < sweeps; ++sweep) {
    const isDown = sweep % 2 === 0;
    for (const row of isDown ? rows : [...rows].reverse()) {
      for (const cell of row) {
        const near = isDown ? cell.up : cell.down;
        cell.wish = near.length ? sum(near, (other) => other.rank) / near.length : cell.rank;
      }
      row.sort((a, b) => a.wish - b.wish);
      number(row);
    }
  }
  return rows;
}

/** Cells move towards those that they are linked to, as far as their neighbours let them. */
function placeAcross({ cells }, rows) {
  for (const row of rows) {
    let x = 0;
    for (const cell of row) {
      cell.x = x + cell.w / 2;
      x += cell.w + boxGap;
    }
  }
  const sweeps = cells.length > 4000 ? 4 : 12;
  for (let sweep = 0; sweep < sweeps; ++sweep) {
    const isDown = sweep % 2 === 0;
    for (const row of isDown ? rows : [...rows].reverse()) {
      for (const cell of row) {
        const near = sweep >= sweeps - 2 ? [...cell.up, ...cell.down] : isDown ? cell.up : cell.down;
        const weight = sum(near, (other) => other.weight);
        cell.wish = near.length ? sum(near, (other) => other.x * other.weight) / weight : cell.x;
      }
      spread(row);
    }
  }
  let left = Infinity, right = -Infinity;
  for (const cell of cells) {
    left = Math.min(left, cell.x - cell.w / 2);
    right = Math.max(right, cell.x + cell.w / 2);
  }
  for (const cell of cells) cell.x -= left;
  return right - left;
}

/** The places in order, far enough apart, whose squared distances from the wishes are least. */
function spread(row) {
  const groups = [];
  let offset = 0, last = null;
  for (const cell of row) {
    if (last) offset += (last.w + cell.w) / 2 + boxGap;
    cell.offset = offset;
    last = cell;
    let group = { sum: (cell.wish - offset) * cell.weight, weight: cell.weight, cells: [cell] };
    while (groups.length && groups[groups.length - 1].sum / groups[groups.length - 1].weight >= group.sum / group.weight) {
      const before = groups.pop();
      before.cells.push(...group.cells);
      group = { sum: before.sum + group.sum, weight: before.weight + group.weight, cells: before.cells };
    }
    groups.push(group);
  }
  for (const group of groups) for (const cell of group.cells) cell.x = group.sum / group.weight + cell.offset;
}
