// Elements and text. Data becomes text nodes and attributes, never markup.

function make(namespace, tag, attributes, children) {
  const element = namespace ? document.createElementNS(namespace, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

const el = (tag, attributes, ...children) => make(null, tag, attributes, children);
const svg = (tag, attributes, ...children) => make("http://www.w3.org/2000/svg", tag, attributes, children);

/** Three significant digits. */
function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 999.5) return Math.round(value).toLocaleString("en-US");
  return size >= 99.95 ? value.toFixed(0) : size >= 9.995 ? value.toFixed(1) : size >= 0.01 ? value.toFixed(2) : value.toExponential(1);
}

function scaled(value, units, base) {
  let unit = 0;
  while (Math.abs(value) >= base && unit < units.length - 1) {
    value /= base;
    ++unit;
  }
  return digits(value) + " " + units[unit];
}

const formatBytes = (bytes) => scaled(bytes, ["B", "kB", "MB", "GB", "TB"], 1000);
const formatFlops = (flops) => scaled(flops, ["", "k", "M", "G", "T", "P"], 1000).trim();
const formatCount = (count) => Math.round(count).toLocaleString("en-US");
const formatShare = (share) => (share >= 0.0995 ? (100 * share).toFixed(0) : (100 * share).toFixed(1)) + " %";

function formatSeconds(seconds) {
  if (seconds === 0) return "0";
  if (seconds < 1e-6) return digits(seconds * 1e9) + " ns";
  if (seconds < 1e-3) return digits(seconds * 1e6) + " µs";
  return seconds < 1 ? digits(seconds * 1e3) + " ms" : digits(seconds) + " s";
}

const plural = (count, word, words) => formatCount(count) + " " + (count === 1 ? word : words || word + "s");

/** The last parts of a path, as many as tell it from nothing. */
const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);

/** A hue that only the text decides. */
function hueOf(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; ++i) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619) >>> 0;
  return hash % 360;
}

const sum = (list, value) => list.reduce((total, entry) => total + value(entry), 0);

/** A bar with a share of 1 at full width. */
const bar = (share, kind) => el("span", { class: "bar " + (kind || ""), "aria-hidden": "true" },
  el("span", { style: `width:${Math.max(0, Math.min(1, share)) * 100}%` }));
