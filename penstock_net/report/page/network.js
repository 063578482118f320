"use strict";
// The picture of the network with its pauses, one port's pauses over time, and the tree of who paused whom.
// Spans are arrays of [start, end] in ns, sorted and without overlaps; the tree is that of penstock_net/report/pauses.py.

function union(lists) {
  const rows = lists.flat().filter(([start, end]) => end > start).sort((a, b) => a[0] - b[0]);
  const out = [];
  for (const [start, end] of rows) {
    const last = out[out.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else out.push([start, end]);
  }
  return out;
}

function firstAfter(spans, time) { // index of the first span that ends after a time
  let low = 0, high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][1] > time) high = middle; else low = middle + 1;
  }
  return low;
}

function common(a, b) {
  const out = [];
  if (!a.length || !b.length) return out;
  let i = firstAfter(a, b[0][0]), j = firstAfter(b, a[0][0]);
  while (i < a.length && j < b.length) {
    const start = Math.max(a[i][0], b[j][0]), end = Math.min(a[i][1], b[j][1]);
    if (end > start) out.push([start, end]);
    if (a[i][1] < b[j][1]) i++; else j++;
  }
  return out;
}

const later = (spans, lag) => spans.map(([start, end]) => [start + lag, end + lag]);
const total = (spans) => spans.reduce((sum, [start, end]) => sum + end - start, 0);

class Network {
  constructor(given) {
    Object.assign(this, given);
    this.lanes = {};
    this.spans = {};
    for (const [port, queues] of Object.entries(given.lanes || {})) {
      this.lanes[port] = Object.entries(queues).map(([queue, steps]) => {
        const spans = [];
        let time = 0;
        for (let i = 0; i < steps.length; i += 2) {
          const start = time + steps[i];
          time = start + steps[i + 1];
          spans.push([start, time]);
        }
        return { queue: Number(queue), spans };
      }).sort((a, b) => a.queue - b.queue);
      this.spans[port] = union(this.lanes[port].map((lane) => lane.spans));
    }
    this.victims = {};
    for (const [port, causes] of Object.entries(given.causes || {})) {
      for (const cause of causes) (this.victims[cause] ||= []).push(Number(port));
    }
  }

  name(port) {
    const [node, peer] = this.ports[port];
    return `${this.names[node]} → ${this.names[peer]}`;
  }

  paused(port, range) { // share of a range, the mean of the port's queues
    const [start, end] = range || this.window, queues = this.queues[this.ports[port][0]];
    const part = (lane) => total(common(lane.spans, [[start, end]])) / (lane.queue < 0 ? 1 : queues);
    const time = range ? (this.lanes[port] || []).reduce((sum, lane) => sum + part(lane), 0) : this.ports[port][2];
    return end > start ? Math.min(1, time / (end - start)) : 0;
  }

  tree(port, spans) { // one level: the branches of a port that was paused during these spans
    return (way) => {
      const next = (way === "causes" ? this.causes[port] : this.victims[port]) || [];
      const branches = next.map((other) => {
        const lag = way === "causes" ? -this.ports[port][3] : this.ports[other][3];
        return { port: other, lag, spans: common(this.spans[other], later(spans, lag)) };
      }).filter((branch) => branch.spans.length);
      branches.sort((a, b) => total(b.spans) - total(a.spans) || a.port - b.port);
      return { branches, rest: total(spans) - total(union(branches.map((branch) => later(branch.spans, -branch.lag)))) };
    };
  }
}

const networks = data.networks.map((given) => given && new Network(given));
const view = { run: 0, port: null, range: null, zoom: 1 };
const STEPS = 200;
const SVG = "http://www.w3.org/2000/svg";

function make(tag, given = {}, text = "") {
  const made = ["svg", "g", "line", "rect", "circle", "text", "title"].includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  Object.entries(given).forEach(([key, value]) => made.setAttribute(key, value));
  if (text) made.textContent = text;
  return made;
}

function timeText(ns) {
  if (!ns) return "0";
  const [unit, size] = Math.abs(ns) >= 1e6 ? ["ms", 1e6] : Math.abs(ns) >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  return `${+(ns / size).toPrecision(4)} ${unit}`;
}

const shareText = (share) => (share ? `${+(100 * share).toPrecision(3)} %` : "0 %");
const COLOURS = [[253, 216, 118], [253, 141, 60], [227, 26, 28], [128, 0, 38]]; // ColorBrewer's YlOrRd

function colour(share) {
  if (!share) return "#c3c9d0";
  const place = Math.min(1, Math.sqrt(share)) * (COLOURS.length - 1), low = Math.min(COLOURS.length - 2, Math.floor(place));
  const mixed = COLOURS[low].map((value, i) => Math.round(value + (COLOURS[low + 1][i] - value) * (place - low)));
  return `rgb(${mixed})`;
}

// -- the picture

function picture(net) {
  const [width, height] = net.size;
  net.scale = Math.max(1, width / 1300); // of symbols: large networks are drawn smaller
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": net.text });
  const chosen = svg.appendChild(make("line", { class: "chosen", "stroke-width": 12 * net.scale, visibility: "hidden" }));
  const halves = svg.appendChild(make("g")), hits = svg.appendChild(make("g")), nodes = svg.appendChild(make("g"));
  const parallel = {};
  net.lines = net.ports.map(([node, peer], port) => {
    const nth = (parallel[`${node} ${peer}`] = (parallel[`${node} ${peer}`] ?? -1) + 1);
    const [x1, y1, x, y] = [net.x[node], net.y[node], net.x[peer], net.y[peer]];
    const away = (nth * 5 * (node < peer ? 1 : -1)) / (Math.hypot(x - x1, y - y1) || 1);
    const [dx, dy] = [away * (y - y1), away * (x1 - x)];
    const place = { x1: x1 + dx, y1: y1 + dy, x2: (x1 + x) / 2 + dx, y2: (y1 + y) / 2 + dy };
    const half = halves.appendChild(make("line", { class: "half", "data-port": port, ...place }));
    const hit = hits.appendChild(make("line", { class: "hit", "data-port": port, "stroke-width": 9 * net.scale, ...place }));
    hit.appendChild(make("title"));
    hit.addEventListener("click", () => choose(port));
    return { half, hit, place };
  });
  const unit = net.scale, root = Math.sqrt(unit);
  net.names.forEach((name, node) => {
    const [x, y] = [net.x[node], net.y[node]];
    const shape = net.host[node] ? make("circle", { cx: x, cy: y, r: 2.6 * root, fill: "#4d555e" })
      : make("rect", { x: x - 8 * root, y: y - 5 * root, width: 16 * root, height: 10 * root, rx: 2 * root, fill: "#1b1f24" });
    shape.appendChild(make("title", {}, name));
    nodes.appendChild(shape);
  });
  const free = (node) => net.names.every((_, other) => other === node || net.host[other] || Math.abs(net.y[other] - net.y[node]) > 14 * unit
    || Math.abs(net.x[other] - net.x[node]) > 8 * unit * net.names[node].length);
  net.names.forEach((name, node) => {
    if (!net.host[node] && free(node)) nodes.appendChild(make("text", { x: net.x[node], y: net.y[node] - 10 * unit, "font-size": 12 * unit, "stroke-width": 3 * unit }, name));
  });
  net.chosen = chosen;
  return svg;
}

function paint() {
  const net = networks[view.run];
  net.ports.forEach((_, port) => {
    const share = net.paused(port, view.range), { half, hit } = net.lines[port];
    half.setAttribute("stroke", colour(share));
    half.setAttribute("stroke-width", (share ? 1.5 + 2.5 * Math.sqrt(share) : 1) * Math.sqrt(net.scale));
    hit.firstChild.textContent = `${net.name(port)}: paused ${shareText(share)}`;
    if (share) half.parentNode.appendChild(half); // above those that were not paused
  });
  const [start, end] = view.range || net.window;
  const whole = view.range ? "" : "window, ";
  element("time-text").textContent = `${whole}${timeText(start)} to ${timeText(end)}`;
  element("picture-caption").textContent = `${data.runs[view.run].label}: share of ${timeText(start)} to ${timeText(end)} for which each port was paused`;
  element("time").setAttribute("aria-valuetext", element("time-text").textContent);
  const line = view.port === null ? null : net.lines[view.port].place;
  net.chosen.setAttribute("visibility", line ? "visible" : "hidden");
  if (line) Object.entries(line).forEach(([key, value]) => net.chosen.setAttribute(key, value));
}

// -- a port

function choose(port) {
  view.port = port;
  const list = element("port");
  if (![...list.options].some((option) => option.value === String(port))) list.add(new Option(networks[view.run].name(port), port));
  list.value = port;
  paint();
  showPort();
}

function setRange(range, slider = true) {
  view.range = range;
  if (slider) element("time").value = range ? Math.floor((STEPS * (range[0] + range[1])) / 2 / networks[view.run].end) : 0;
  paint();
  showPort();
}

function showPort() {
  const net = networks[view.run], port = view.port;
  element("port-view").hidden = port === null;
  if (port === null) return;
  const [start, end] = view.range || net.window;
  element("port-title").textContent = `${net.name(port)}: paused ${shareText(net.paused(port, view.range))} of ${timeText(start)} to ${timeText(end)}`;
  element("wave").hidden = !net.recorded;
  if (net.recorded) wave(net, port);
  for (const way of ["causes", "victims"]) {
    const spans = common(net.spans[port] || [], [[start, end]]);
    const text = !net.recorded ? "The run did not record its pauses: run it again with --set measure.pauses=true." : "It was not paused in this time.";
    element(way).replaceChildren(spans.length ? branches(net, { port, spans }, way, [port], total(spans), 2) : make("p", { class: "quiet" }, text));
  }
}

function wave(net, port) {
  const lanes = net.lanes[port] || [];
  const label = (lane) => (lane.queue < 0 ? "port" : `queue ${lane.queue}`);
  const traces = lanes.map((lane) => ({ type: "scatter", mode: "lines", name: label(lane), line: { color: "#a50f15", width: 9 }, hoverinfo: "text",
    x: lane.spans.flatMap(([start, end]) => [start / 1e6, end / 1e6, null]),
    y: lane.spans.flatMap(() => [label(lane), label(lane), null]),
    customdata: lane.spans.flatMap((span) => [span, span, null]),
    text: lane.spans.flatMap(([start, end]) => { const text = `${label(lane)} paused ${timeText(end - start)}<br>${timeText(start)} to ${timeText(end)}`; return [text, text, ""]; }) }));
  const band = ([start, end], fill) => ({ type: "rect", xref: "x", yref: "paper", x0: start / 1e6, x1: end / 1e6, y0: 0, y1: 1, fillcolor: fill, line: { width: 0 }, layer: "below" });
  const shapes = [band(net.window, "#f0f2f4"), ...(view.range ? [band(view.range, "#b9d6f0")] : [])];
  Plotly.react("wave", traces, { font: FONT, height: 110 + 17 * Math.max(1, lanes.length), margin: { l: 70, r: 14, t: 28, b: 46 }, showlegend: false, shapes,
    hovermode: "closest", hoverdistance: 30, xaxis: { ...axis("Time (ms); grey: the measurement window", false), range: [0, net.end / 1e6] },
    yaxis: { type: "category", categoryorder: "array", categoryarray: lanes.map(label).reverse(), fixedrange: true, showgrid: false },
    uirevision: `${view.run} ${port}` }, OPTIONS);
  const plot = element("wave");
  plot.removeAllListeners("plotly_click");
  plot.on("plotly_click", (event) => event.points[0].customdata && setRange(event.points[0].customdata));
}

// -- the tree

const LISTED = 6; // branches; a button shows the others

function branches(net, { port, spans }, way, path, whole, depth) {
  const { branches: found, rest } = net.tree(port, spans)(way);
  const list = make("ul");
  const peer = net.names[net.ports[port][1]], node = net.names[net.ports[port][0]];
  found.forEach((branch, nth) => {
    const item = list.appendChild(make("li"));
    item.hidden = nth >= LISTED;
    const text = `${timeText(total(branch.spans))} (${shareText(total(branch.spans) / whole)})`;
    const button = make("button", { type: "button" }, net.name(branch.port));
    button.addEventListener("click", () => choose(branch.port));
    if (path.includes(branch.port)) {
      item.append(button, ` ${text}: a loop, the pauses wait for each other`);
      return;
    }
    const inner = make("div"), toggle = make("button", { type: "button", class: "toggle", "aria-label": `Branches of ${net.name(branch.port)}` });
    const open = (wanted) => {
      if (wanted && !inner.firstChild) inner.append(branches(net, branch, way, [...path, branch.port], whole, depth - 1));
      inner.hidden = !wanted;
      toggle.textContent = wanted ? "▾" : "▸";
      toggle.setAttribute("aria-expanded", wanted);
    };
    toggle.addEventListener("click", () => open(inner.hidden));
    open(depth > 1 && nth === 0);
    item.append(toggle, button, ` ${text}`, inner);
  });
  if (found.length > LISTED) {
    const more = make("button", { type: "button" }, `${found.length - LISTED} more`);
    more.addEventListener("click", () => { [...list.children].forEach((item) => { item.hidden = false; }); more.remove(); });
    list.appendChild(make("li")).append(more);
  }
  if (rest > 1e-6) {
    const text = way === "causes" ? `${peer} itself congested` : `nobody else paused by ${node}`;
    list.appendChild(make("li", {}, `${text} ${timeText(rest)} (${shareText(rest / whole)})`));
  }
  return list;
}

// -- controls

function showRun(run) {
  const net = networks[run];
  Object.assign(view, { run, port: null, range: null });
  element("picture").replaceChildren(picture(net));
  enlarge(1 / view.zoom);
  const byTime = [...net.ports.keys()].sort((a, b) => net.ports[b][2] - net.ports[a][2] || a - b);
  const options = byTime.slice(0, 200).map((port) => new Option(`${net.name(port)}: ${shareText(net.paused(port, null))}`, port));
  element("port").replaceChildren(new Option("choose one", ""), ...options);
  ["time", "window", "whole"].forEach((id) => { element(id).disabled = !net.recorded; });
  element("time").value = 0;
  paint();
  if (net.ports[byTime[0]][2]) choose(byTime[0]); else showPort();
}

function enlarge(factor) {
  view.zoom = Math.min(16, Math.max(1, view.zoom * factor));
  const style = element("picture").firstChild.style, first = view.zoom === 1;
  style.width = `calc(${view.zoom} * min(100%, ${1.6 * networks[view.run].size[0]}px))`;
  style.maxHeight = first ? "75vh" : "none";
}

if (element("network-run")) {
  const list = element("network-run");
  networks.forEach((net, run) => net && list.add(new Option(data.runs[run].label, run)));
  list.addEventListener("change", () => showRun(Number(list.value)));
  element("port").addEventListener("change", () => element("port").value && choose(Number(element("port").value)));
  element("time").max = STEPS - 1;
  element("time").addEventListener("input", () => {
    const bin = Number(element("time").value), step = networks[view.run].end / STEPS;
    setRange([bin * step, (bin + 1) * step], false);
  });
  element("window").addEventListener("click", () => setRange(null));
  element("whole").addEventListener("click", () => setRange([0, networks[view.run].end]));
  element("zoom-in").addEventListener("click", () => enlarge(1.6));
  element("zoom-out").addEventListener("click", () => enlarge(1 / 1.6));
  const stops = Array.from({ length: 11 }, (_, i) => colour(i / 10 || 1e-9));
  document.querySelector(".scale i").style.background = `linear-gradient(to right, ${stops})`;
  showRun(Number(list.options[0].value));
}
