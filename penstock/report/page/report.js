"use strict";
// The figures, and which runs, flows and statistic they show. network.js has the picture of the network.

const data = JSON.parse(document.getElementById("data").textContent);
const shown = new Set(data.runs.keys());
const element = (id) => document.getElementById(id);
const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"); // plotly reads tags
const OPTIONS = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
const FONT = { family: "system-ui, sans-serif", size: 12, color: "#1b1f24" };
const GRID = { gridcolor: "#e2e5e9", zerolinecolor: "#aab1b9", linecolor: "#aab1b9", showline: true, ticks: "outside", tickcolor: "#aab1b9" };

function axis(title, log, bytes) {
  const kind = log ? { type: "log", tickformat: bytes ? "~s" : "", ticksuffix: bytes ? "B" : "", minor: { ticks: "outside" } } : {};
  if (log && bytes) kind.dtick = 1;
  return { ...GRID, title: { text: title, standoff: 8 }, ...kind };
}

function curves(figure) {
  const both = `${element("class").value}|${element("statistic").value}`;
  return figure.variants[both] || figure.variants[both.split("|")[0] + "|"] || figure.variants["|"];
}

function trace(figure, curve, number) {
  const run = data.runs[number];
  const common = { name: safe(run.label), x: curve.x, y: curve.y, meta: number };
  if (figure.kind === "bars") {
    return { ...common, y: [safe(run.label)], type: "bar", orientation: "h", marker: { color: run.colour }, width: 0.6,
      text: curve.x.map((x) => (x ? `${+x.toPrecision(2)} %` : "0")), textposition: "outside", cliponaxis: false, hoverinfo: "none" };
  }
  const count = curve.n ? "<br>%{customdata} flows" : "";
  return { ...common, type: "scatter", mode: figure.kind === "points" ? "lines+markers" : "lines", customdata: curve.n,
    line: { color: run.colour, dash: run.dash, width: figure.kind === "line" ? 1.3 : 2, shape: figure.kind === "steps" ? "hv" : "linear" },
    marker: { symbol: run.symbol, size: 7, color: run.colour },
    hovertemplate: `<b>%{fullData.name}</b><br>${safe(figure.x)}: %{x${figure.bytesX ? ":.3s}B" : ":.4~g}"}<br>` +
      `${safe(figure.y)}: %{y:.4~g}${count}<extra></extra>` };
}

function layout(figure, count) {
  const bars = figure.kind === "bars";
  const statistic = figure.name === "slowdown" ? ` (${data.statistics[element("statistic").value]})` : "";
  const flows = "|" in figure.variants ? "" : `, ${element("class").selectedOptions[0].text}`;
  const longest = Math.max(...data.runs.map((run) => run.label.length));
  return { font: FONT, hovermode: "closest", showlegend: false, dragmode: "zoom", paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    margin: { l: bars ? Math.min(160, 20 + 7 * longest) : 62, r: bars ? 60 : 14, t: 28, b: 48 },
    height: bars ? 90 + 30 * Math.max(1, count) : 300,
    xaxis: { ...axis(figure.x + flows, figure.logX, figure.bytesX), rangemode: figure.logX ? "normal" : "tozero" },
    yaxis: bars ? { automargin: false, autorange: "reversed", fixedrange: true }
      : { ...axis(figure.y + statistic, figure.logY), rangemode: figure.logY ? "normal" : "tozero" },
    hoverlabel: { align: "left", font: { family: FONT.family, size: 12 } } };
}

function draw(figure) {
  const found = curves(figure);
  const traces = found.map((curve, number) => (curve && shown.has(number) ? trace(figure, curve, number) : null)).filter(Boolean);
  const plan = layout(figure, traces.length);
  if (figure.logY) {
    const values = traces.flatMap((one) => one.y).filter((y) => y > 0);
    const low = Math.log10(Math.min(1, ...values)), high = Math.log10(Math.max(2, ...values));
    plan.yaxis.range = [low - 0.02 * (high - low), high + 0.05 * (high - low)];
  }
  Plotly.react(`${figure.name}-plot`, traces, plan, OPTIONS);
}

function update() {
  data.figures.forEach(draw);
  document.querySelectorAll("tr[data-run], .summary [data-run]").forEach((cell) => { cell.hidden = !shown.has(Number(cell.dataset.run)); });
}

document.querySelectorAll("#schemes input").forEach((box) => box.addEventListener("change", () => {
  if (box.checked) shown.add(Number(box.value)); else shown.delete(Number(box.value));
  update();
}));
["class", "statistic"].forEach((id) => element(id).addEventListener("change", update));

document.querySelectorAll("svg.swatch").forEach((swatch) => { // the run's line, as a legend
  const run = data.runs[swatch.dataset.run];
  const dashes = { solid: "", dash: "7 3", dot: "2 2", dashdot: "7 2 2 2", longdash: "10 3", longdashdot: "10 2 2 2" };
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const given = { x1: 0, x2: 26, y1: 5, y2: 5, stroke: run.colour, "stroke-width": 3, "stroke-dasharray": dashes[run.dash] };
  Object.entries(given).forEach(([key, value]) => line.setAttribute(key, value));
  swatch.append(line);
});

element("controls").hidden = false;
update();

const plots = () => [...document.querySelectorAll(".js-plotly-plot")].filter((plot) => plot.offsetParent);
const PAPER = { width: 330, height: 215 }; // px: half of an A4 page wide
window.addEventListener("beforeprint", () => plots().forEach((plot) => Plotly.relayout(plot, PAPER)));
window.addEventListener("afterprint", () => { plots().forEach((plot) => Plotly.relayout(plot, { width: null, autosize: true })); update(); });
