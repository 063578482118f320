"use strict";
// What the pages of runs and of a sweep share. A page's own script defines drawAll() and then calls start().

const data = JSON.parse(document.getElementById("data").textContent);
const choices = data.runs || data.schemes;
const shown = new Set(choices.keys());
const element = (id) => document.getElementById(id);
const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"); // plotly reads tags
const OPTIONS = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
const FONT = { family: "system-ui, sans-serif", size: 12, color: "#1b1f24" };
const GRID = { gridcolor: "#e2e5e9", zerolinecolor: "#aab1b9", linecolor: "#aab1b9", showline: true, ticks: "outside", tickcolor: "#aab1b9" };

const PREFIXES = ["", "K", "M", "G", "T"]; // 1 KB is 1000 B, as in figures and tables
function bytesText(size) {
  const step = size < 1 ? 0 : Math.min(4, Math.floor(Math.log10(size) / 3 + 1e-9));
  return `${+(size / 1000 ** step).toPrecision(3)} ${PREFIXES[step]}B`;
}
const SIZES = [...Array(15).keys()].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));

function axis(title, log, bytes, values = []) {
  const kind = log ? { type: "log", minor: { ticks: "outside" } } : {};
  if (log && bytes) { // powers of ten; more of them where a curve spans less than two
    const narrow = values.length && Math.max(...values) / Math.min(...values) < 100;
    const marks = SIZES.filter((size) => narrow || /^10*$/.test(String(size)));
    Object.assign(kind, { tickvals: marks, ticktext: marks.map(bytesText), minor: {} });
  }
  return { ...GRID, title: { text: title, standoff: 8 }, ...kind };
}

const LAYOUT = { font: FONT, hovermode: "closest", showlegend: false, dragmode: "zoom", paper_bgcolor: "#fff", plot_bgcolor: "#fff",
  hoverlabel: { align: "left", font: { family: FONT.family, size: 12 } } };

function logRange(values) { // of a logarithmic axis, from 1 or less
  const low = Math.log10(Math.min(1, ...values)), high = Math.log10(Math.max(2, ...values));
  return [low - 0.02 * (high - low), high + 0.05 * (high - low)];
}

function update() {
  drawAll();
  document.querySelectorAll("tr[data-run], .summary [data-run]").forEach((cell) => { cell.hidden = !shown.has(Number(cell.dataset.run)); });
}

document.querySelectorAll("#schemes input").forEach((box) => box.addEventListener("change", () => {
  if (box.checked) shown.add(Number(box.value)); else shown.delete(Number(box.value));
  update();
}));
document.querySelectorAll("#controls select").forEach((select) => select.addEventListener("change", update));

function swatch(svg, look) { // a curve's line, for a legend
  const dashes = { solid: "", dash: "7 3", dot: "2 2", dashdot: "7 2 2 2", longdash: "10 3", longdashdot: "10 2 2 2" };
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const given = { x1: 0, x2: 26, y1: 5, y2: 5, stroke: look.colour, "stroke-width": 3, "stroke-dasharray": dashes[look.dash] };
  Object.entries(given).forEach(([key, value]) => line.setAttribute(key, value));
  svg.append(line);
}

document.querySelectorAll("svg.swatch").forEach((svg) => swatch(svg, choices[svg.dataset.run]));

function start() {
  element("controls").hidden = false;
  update();
}

const plots = () => [...document.querySelectorAll(".js-plotly-plot")].filter((plot) => plot.offsetParent);
const PAPER = { width: 330, height: 215 }; // px: half of an A4 page wide
window.addEventListener("beforeprint", () => plots().forEach((plot) => Plotly.relayout(plot, PAPER)));
window.addEventListener("afterprint", () => { plots().forEach((plot) => Plotly.relayout(plot, { width: null, autosize: true })); update(); });
