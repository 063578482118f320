// The figures, and which runs, flows and statistic they show. network.js has the picture of the network.

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
  if (figure.bytesX) common.text = curve.x.map(bytesText);
  return { ...common, type: "scatter", mode: figure.kind === "points" ? "lines+markers" : "lines", customdata: curve.n,
    line: { color: run.colour, dash: run.dash, width: figure.kind === "line" ? 1.3 : 2, shape: figure.kind === "steps" ? "hv" : "linear" },
    marker: { symbol: run.symbol, size: 7, color: run.colour },
    hovertemplate: `<b>%{fullData.name}</b><br>${safe(figure.x)}: ${figure.bytesX ? "%{text}" : "%{x:.4~g}"}<br>` +
      `${safe(figure.y)}: %{y:.4~g}${count}<extra></extra>` };
}

function spans(curve) { // of ranks: what they compute and communicate
  return curve.spans.map((part) => ({ type: "bar", orientation: "h", name: part.name, base: part.base, x: part.x, y: part.y, width: 0.42,
    marker: { color: part.colour, line: { width: 0 } }, text: part.text, textposition: "none", customdata: part.x.map((time, i) => part.base[i] + time),
    hovertemplate: "<b>%{fullData.name}</b> %{text}<br>%{base:.5~g} to %{customdata:.5~g} ms<extra></extra>" }));
}

function drawSpans(figure) {
  const curve = figure.variants["|"].find((each, number) => each && shown.has(number));
  element(figure.name).hidden = !curve;
  if (!curve) return;
  const longest = Math.max(...curve.ticks[1].map((text) => text.length));
  Plotly.react(`${figure.name}-plot`, spans(curve), { ...LAYOUT, barmode: "overlay", showlegend: true, height: curve.height[0],
    legend: { orientation: "h", y: 1, yanchor: "bottom", x: 0 }, margin: { l: 40 + 7 * longest, r: 14, t: 40, b: 48 },
    xaxis: { ...axis(figure.x), rangemode: "tozero" },
    yaxis: { ...axis(figure.y), autorange: "reversed", tickvals: curve.ticks[0], ticktext: curve.ticks[1], showgrid: false, zeroline: false } }, OPTIONS);
}

function layout(figure, count, values) {
  const bars = figure.kind === "bars";
  const statistic = figure.name === "slowdown" ? ` (${data.statistics[element("statistic").value]})` : "";
  const flows = "|" in figure.variants ? "" : `, ${element("class").selectedOptions[0].text}`;
  const longest = Math.max(...data.runs.map((run) => run.label.length));
  return { ...LAYOUT,
    margin: { l: bars ? Math.min(160, 20 + 7 * longest) : 62, r: bars ? 60 : 14, t: 28, b: 48 },
    height: bars ? 90 + 30 * Math.max(1, count) : 300,
    xaxis: { ...axis(figure.x + flows, figure.logX, figure.bytesX, values), rangemode: figure.logX ? "normal" : "tozero" },
    yaxis: bars ? { automargin: false, autorange: "reversed", fixedrange: true }
      : { ...axis(figure.y + statistic, figure.logY), rangemode: figure.logY ? "normal" : "tozero" } };
}

function draw(figure) {
  if (figure.kind === "spans") return drawSpans(figure);
  const found = curves(figure);
  const traces = found.map((curve, number) => (curve && shown.has(number) ? trace(figure, curve, number) : null)).filter(Boolean);
  const plan = layout(figure, traces.length, traces.flatMap((one) => one.x));
  if (figure.logY) plan.yaxis.range = logRange(traces.flatMap((one) => one.y).filter((y) => y > 0));
  Plotly.react(`${figure.name}-plot`, traces, plan, OPTIONS);
}

function drawAll() {
  data.figures.forEach(draw);
}

start();
