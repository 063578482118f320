// The figures of a sweep: means over the seeds, with bands or error bars; which schemes and values of parameters they show.

const parameters = [...document.querySelectorAll("select.parameter")];

function wanted(curve) { // by scheme, and by the values of parameters that are the same along the curve
  return shown.has(curve.scheme) && parameters.every((select, i) => select.value === "any" || [select.value, "any"].includes(curve.values[i]));
}

const line = (curve) => ({ name: safe(curve.label), type: "scatter", mode: "lines+markers",
  line: { color: curve.colour, dash: curve.dash, width: 2 }, marker: { symbol: curve.symbol, size: 7, color: curve.colour } });

function legend(id, curves) { // the names of the curves that are drawn, below their figure
  element(id).replaceChildren(...curves.map((curve) => {
    const item = document.createElement("li"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    Object.entries({ class: "swatch", width: 26, height: 10, "aria-hidden": "true" }).forEach(([key, value]) => svg.setAttribute(key, value));
    swatch(svg, curve);
    item.append(svg, curve.label);
    return item;
  }));
}

function drawSlowdown() {
  const found = data.slowdown[`${element("class").value}|${element("statistic").value}`], bands = [], lines = [], drawn = [];
  data.curves.forEach((curve, number) => {
    const { x, y, low, high, n } = found[number];
    if (!x.length || !wanted(curve)) return;
    drawn.push(curve);
    bands.push({ type: "scatter", mode: "lines", fill: "toself", fillcolor: curve.colour, opacity: 0.18, line: { width: 0 }, hoverinfo: "skip",
      x: [...x, ...[...x].reverse()], y: [...high, ...[...low].reverse()] });
    lines.push({ ...line(curve), x, y, text: x.map(bytesText), customdata: low.map((value, i) => [value, high[i], n[i]]),
      hovertemplate: "<b>%{fullData.name}</b><br>Flow size: %{text}<br>FCT slowdown: %{y:.4~g} (%{customdata[0]:.4~g} to %{customdata[1]:.4~g})<br>%{customdata[2]} runs<extra></extra>" });
  });
  const text = `FCT slowdown (${data.statistics[element("statistic").value]})`;
  const plan = { ...LAYOUT, margin: { l: 62, r: 14, t: 28, b: 48 }, height: 300,
    xaxis: axis(`Flow size, ${element("class").selectedOptions[0].text}`, true, true, lines.flatMap((one) => one.x)), yaxis: axis(text, true) };
  plan.yaxis.range = logRange([...bands, ...lines].flatMap((one) => one.y));
  Plotly.react("slowdown-plot", [...bands, ...lines], plan, OPTIONS);
  legend("slowdown-legend", drawn);
}

function drawAgainst() {
  const x = element("x").value, y = element("y").value, against = data.against[x], text = data.axes[y];
  const chosen = parameters[data.parameters.indexOf(x)]?.value ?? "any";
  const drawn = against.curves.filter(wanted);
  const lines = drawn.map((curve) => {
    const kept = curve.x.map((_, i) => i).filter((i) => curve.y[y][i] !== null && (chosen === "any" || curve.at[i] === chosen));
    const of = (values) => kept.map((i) => values[y][i]), means = of(curve.y), below = of(curve.below), above = of(curve.above);
    return { ...line(curve), x: kept.map((i) => curve.x[i]), y: means, customdata: means.map((mean, i) => [mean - below[i], mean + above[i]]),
      error_y: { type: "data", symmetric: false, array: above, arrayminus: below, color: curve.colour, thickness: 1.3, width: 4 },
      hovertemplate: `<b>%{fullData.name}</b><br>${safe(x)}: %{x}<br>${safe(text)}: %{y:.4~g} (%{customdata[0]:.4~g} to %{customdata[1]:.4~g})<extra></extra>` };
  });
  Plotly.react("against-plot", lines, { ...LAYOUT, margin: { l: text.length > 34 ? 76 : 62, r: 14, t: 28, b: 48 }, height: 300,
    xaxis: { ...axis(safe(x)), type: against.numeric ? "linear" : "category" }, yaxis: { ...axis(text.length > 34 ? safe(text).replace(" (", "<br>(") : safe(text)), rangemode: "tozero" } }, OPTIONS);
  legend("against-legend", drawn);
}

function drawAll() {
  drawSlowdown();
  drawAgainst();
}

["class", "statistic"].forEach((id) => element(id).addEventListener("change", drawSlowdown));
["x", "y"].forEach((id) => element(id).addEventListener("change", drawAgainst));
start();
