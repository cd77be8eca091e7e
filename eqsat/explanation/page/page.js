const data = JSON.parse(document.getElementById("data").textContent);
const total = data.summary.after_ns;
const details = document.getElementById("details");
const graphs = {};

/* Words and figures */

const micros = (ns) => (ns == null ? "" : ns < 1e5 ? `${(ns / 1e3).toFixed(2)} µs` : `${(ns / 1e3).toLocaleString("en", { maximumFractionDigits: 1 })} µs`);
const count = (n) => n.toLocaleString("en", { maximumFractionDigits: 0 });
const short = (n, units) => {
  let place = 0;
  while (n >= 1000 && place < units.length - 1) { n /= 1000; place += 1; }
  return `${n >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toPrecision(3)} ${units[place]}`;
};
const bytes = (n) => short(n, ["B", "kB", "MB", "GB"]);
const flops = (n) => short(n, ["FLOP", "kFLOP", "MFLOP", "GFLOP"]);
const percent = (part) => `${(total ? (100 * part) / total : 0).toFixed(1)} %`;
const hue = (kernel) => Math.round((kernel * 137.508) % 360);
const rewrites = (kernel) => kernel.chains.reduce((sum, chain) => sum + chain.steps.length, 0);
const equation = (kernel) => `${kernel.writes.join(", ")} = ${kernel.name}`;

const writer = new Map();
data.kernels.forEach((kernel, place) => kernel.writes.forEach((name) => writer.set(name, place)));
const readers = data.kernels.map(() => []);
data.kernels.forEach((kernel, place) => kernel.reads.forEach((name) => writer.has(name) && readers[writer.get(name)].push(place)));
const users = new Map();
data.kernels.forEach((kernel, place) => {
  for (const step of kernel.chains.flatMap((chain) => chain.steps)) {
    if (!users.has(step.rule)) users.set(step.rule, new Set());
    users.get(step.rule).add(place);
  }
});

/* Links to what can be shown */

const link = (text, act, style = "link") => make("button", { type: "button", class: style, onclick: act }, text);
const kernelLink = (place, style) => link(equation(data.kernels[place]), () => go("kernel", place), style);
const uopLink = (id) => link(id, () => go("uop", id), "chip");
const ruleLink = (name) => (data.rules[name] ? link(name, () => go("rule", name)) : make("span", {}, name));
const bufferLink = (name) => (writer.has(name) ? link(name, () => go("kernel", writer.get(name)), "chip") : make("span", { class: "chip" }, name));
const fact = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
const commas = (nodes) => nodes.flatMap((node, place) => (place ? [" ", node] : [node]));

/* Details */

function showKernel(place) {
  const kernel = data.kernels[place];
  const feeds = readers[place];
  fill(
    make("h2", {}, equation(kernel), make("small", {}, `(${kernel.reads.join(", ")})`)),
    kernel.computes ? make("p", { class: "soft" }, kernel.computes) : null,
    make("dl", { class: "facts" },
      fact("predicted", micros(kernel.ns)), fact("of the program", percent(kernel.ns)), fact("bound by", kernel.bound),
      fact("work", flops(kernel.flops)), fact("moved", bytes(kernel.bytes)),
      fact("occupancy", kernel.occupancy.toFixed(2)), fact("efficiency", kernel.efficiency.toFixed(2))),
    make("h3", {}, "Price and plan"),
    make("div", { class: "note" }, `${kernel.price}\n${kernel.plan}${kernel.joined ? `\njoined: ${kernel.joined}` : ""}`),
    make("h3", {}, "Reads"), make("div", {}, kernel.reads.map(bufferLink)),
    feeds.length ? [make("h3", {}, "Read by"), make("div", {}, commas(feeds.map((place) => kernelLink(place, "chip"))))] : null,
    neighbours(place),
    make("h3", {}, `Uops (${kernel.uops.length})`),
    make("div", {}, kernel.uops.length ? kernel.uops.map(uopLink) : make("span", { class: "soft" }, "none: a rule made this buffer")),
    choices(kernel), chains(kernel),
  );
}

/** Why a kernel was not fused with its producers and its readers. */
function neighbours(place) {
  const here = `k${place}`;
  const edges = data.program.edges.filter((edge) => edge.why && (edge.from === here || edge.to === here));
  if (!edges.length) return null;
  const rows = edges.map((edge) => {
    const other = data.kernels[Number((edge.from === here ? edge.to : edge.from).slice(1))];
    return make("div", {}, link(equation(other), () => showEdge(edge)), make("span", { class: "soft" }, `: ${edge.why.verdict}`));
  });
  return [make("h3", {}, "Why it is not one kernel with"), make("div", {}, rows)];
}

/** The candidates for a kernel's output: the chosen one, and the nearest rejected ones. */
function choices(kernel) {
  const others = kernel.candidates - kernel.writes.length;
  const heading = make("h3", {}, `Candidates for ${kernel.writes.join(", ")}: ${kernel.candidates}`);
  if (!kernel.rejected.length) return [heading, make("p", { class: "soft" }, "No other was found.")];
  const dearest = Math.max(...kernel.rejected.map((rival) => rival.extra ?? 0), 1e-9);
  const rows = kernel.rejected.map((rival) => make("tr", {},
    make("td", {}, make("span", { class: "mono" }, rival.name), make("div", { class: "soft" }, `reads ${rival.reads.join(", ") || "nothing"}`),
      rival.remark ? make("div", { class: rival.ns == null ? "bad" : "soft" }, rival.remark) : null),
    make("td", { class: "n" }, micros(rival.ns)),
    make("td", { class: "n" }, rival.extra == null ? "" : `+${micros(rival.extra)}`,
      rival.extra == null ? null : make("span", { class: "bar extra", style: `width:${(100 * Math.max(rival.extra, 0)) / dearest}%` }))));
  return [heading,
    make("table", {},
      make("thead", {}, make("tr", {}, make("th", {}, "candidate"), make("th", { class: "n" }, "itself"), make("th", { class: "n" }, "the program"))),
      make("tbody", {},
        make("tr", { class: "chosen" }, make("td", {}, make("span", { class: "mono" }, kernel.name), make("div", { class: "good" }, "chosen")),
          make("td", { class: "n" }, micros(kernel.ns)), make("td", { class: "n" }, "")),
        rows)),
    others > kernel.rejected.length ? make("p", { class: "soft" }, `The nearest ${kernel.rejected.length} of ${others} that were rejected.`) : null];
}

/** The rewrites from the uops to the kernel, output by output. */
function chains(kernel) {
  if (!kernel.chains.length) return [make("h3", {}, "Rewrites"), make("p", { class: "soft" }, "They can no longer be found.")];
  return kernel.chains.map(chain);
}

function chain({ output, start, end, birth, steps }) {
  const list = make("ol", { class: "chain" });
  for (const step of birth) list.append(stepItem(step, ""));
  list.append(endItem(birth.length ? "the buffer" : "the uops", `${output} = ${start}`));
  steps.forEach((step, place) => list.append(stepItem(step, place + 1)));
  list.append(endItem("the kernel", `${output} = ${end}`));
  const box = make("input", { type: "checkbox", onchange: () => list.classList.toggle("only-key", box.checked) });
  const toggle = make("label", { class: "switch" }, box, "without movements");
  return [make("h3", {}, `Rewrites: ${steps.length}`, steps.length ? toggle : null), list];
}

const endItem = (title, text) => make("li", { class: "end" }, make("div", { class: "head" }, make("strong", {}, title)), make("div", { class: "term" }, text));

function stepItem(step, number) {
  const rule = data.rules[step.rule];
  const [before, after] = difference(step.before, step.after);
  return make("li", { class: rule && rule.family === "movement" ? "movement" : "" },
    make("div", { class: "head" }, make("span", { class: "number" }, number), ruleLink(step.rule), step.times ? `×${step.times}` : null,
      rule ? make("span", { class: "equation" }, rule.equation) : null),
    make("div", { class: "term" }, before), make("div", { class: `term after${step.backwards ? " back" : ""}` }, after));
}

/** Both texts; the words between their common beginning and their common end are marked. */
function difference(...texts) {
  const [before, after] = texts.map((text) => text.match(/[\p{L}\p{N}_.]+|\s+|[^]/gu) || []);
  let head = 0, tail = 0;
  const least = Math.min(before.length, after.length);
  while (head < least && before[head] === after[head]) head += 1;
  while (tail < least - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  const marked = (words) => {
    const end = words.length - tail;
    const [first, middle, last] = [words.slice(0, head), words.slice(head, end), words.slice(end)].map((part) => part.join(""));
    return head + tail === 0 || !middle ? [words.join("")] : [first, make("mark", {}, middle), last];
  };
  return [marked(before), marked(after)];
}

function showUop(id) {
  const node = graphs.before.byId.get(id);
  const { in: sources, out } = graphs.before.near.get(id);
  fill(
    make("h2", {}, node.op === "INPUT" ? node.label : id, make("small", {}, ` ${node.op.toLowerCase()}`)),
    make("dl", { class: "facts" }, fact("type", node.type), ...Object.entries(node.arg).map(([name, value]) => fact(name, value))),
    sources.length ? [make("h3", {}, "Operands"), make("div", {}, sources.map(uopLink))] : null,
    out.length ? [make("h3", {}, "Read by"), make("div", {}, out.map(uopLink))] : null,
    make("h3", {}, "Computed in"),
    make("div", {}, node.kernels.length ? node.kernels.map((place) => make("div", {}, kernelLink(place)))
      : make("span", { class: "soft" }, node.op === "INPUT" ? "It is an input." : "No kernel that runs: it is an index map, a constant, or not needed.")),
  );
}

function showRule(name) {
  const rule = data.rules[name];
  const kernels = [...(users.get(name) || [])];
  fill(
    make("h2", {}, name, make("small", {}, ` ${rule.family}`)),
    make("p", { class: "mono" }, rule.equation),
    make("dl", { class: "facts" }, fact("level", rule.exactness), fact("certificate", rule.certificate), fact("matches", count(rule.matches)),
      ...rule.by_phase.map((matches, phase) => [matches, phase]).filter(([matches]) => matches).map(([matches, phase]) => fact(`in phase ${phase + 1}`, count(matches)))),
    make("h3", {}, "Terms"), make("div", { class: "term" }, rule.from), make("div", { class: "term after" }, rule.to),
    rule.when.length ? [make("h3", {}, "Conditions"), rule.when.map((condition) => make("div", { class: "term" }, condition))] : null,
    make("h3", {}, `Kernels whose chain it is in (${kernels.length})`),
    make("div", {}, kernels.map((place) => make("div", {}, kernelLink(place)))),
  );
}

function showEdge(edge) {
  const [from, to] = [edge.from, edge.to].map((id) => graphs.after.byId.get(id));
  const why = edge.why;
  graphs.after.light([edge.from, edge.to], null, edge);
  fill(
    make("h2", {}, edge.buffer, make("small", {}, ` ${bytes(edge.bytes)}${edge.order}`)),
    from.kernel == null ? make("p", {}, `Given from outside; read by `, kernelLink(to.kernel)) : null,
    to.kernel == null ? make("p", {}, "An output of the program, written by ", kernelLink(from.kernel)) : null,
    from.kernel != null && to.kernel != null
      ? [make("p", {}, "Written by ", kernelLink(from.kernel)), make("p", {}, "Read by ", kernelLink(to.kernel)),
        why ? [make("h3", {}, "Why they are not one kernel"), make("p", {}, make("strong", {}, why.verdict)), why.reasons.map((reason) => make("p", {}, reason))] : null]
      : null,
  );
}

function fill(...content) {
  details.replaceChildren(...content.flat(4).filter((node) => node != null));
  details.scrollTop = 0;
}

/* Navigation */

const shows = {
  kernel(place) {
    showKernel(place);
    const kernel = data.kernels[place];
    const near = [...kernel.reads.filter((name) => writer.has(name)).map((name) => writer.get(name)), ...readers[place]];
    graphs.after.light([`k${place}`, ...near.map((place) => `k${place}`), ...kernel.reads.map((name) => `in:${name}`)], `k${place}`);
    if (graphs.before) graphs.before.light(kernel.uops, null);
    for (const row of document.querySelectorAll("#table tbody tr")) row.classList.toggle("chosen", Number(row.dataset.kernel) === place);
  },
  uop(id) {
    drawUops();
    showUop(id);
    const { in: above, out } = graphs.before.near.get(id);
    graphs.before.light([id, ...above, ...out], id);
    const { kernels } = graphs.before.byId.get(id);
    graphs.after.light(kernels.map((place) => `k${place}`), null);
  },
  rule(name) {
    showRule(name);
    graphs.after.light([...(users.get(name) || [])].map((place) => `k${place}`), null);
  },
};
const views = { kernel: ["after", "table"], uop: ["before"], rule: ["rules", "after", "before", "table", "run"] };
let current = "after";

/** Show a kernel, a uop or a rule: its details, and its place in the views. */
function go(kind, which, quietly = false) {
  if (!views[kind].includes(current)) open(views[kind][0]);
  shows[kind](which);
  if (kind === "kernel" && current === "after") graphs.after.center(`k${which}`);
  if (kind === "uop" && current === "before") graphs.before.center(which);
  const name = kind === "kernel" ? data.kernels[which].writes[0] : which;
  if (!quietly) history.replaceState(null, "", `#${kind}=${encodeURIComponent(name)}`);
}

function open(view) {
  current = view;
  for (const tab of document.querySelectorAll('[role="tab"]')) {
    const isOpen = tab.getAttribute("aria-controls") === view;
    tab.setAttribute("aria-selected", isOpen);
    tab.tabIndex = isOpen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !isOpen;
  }
  if (view === "before") drawUops();
  if (graphs[view]) graphs[view].appear();
}

/* Views */

function drawKernels() {
  const home = document.getElementById("after");
  const dearest = Math.max(...data.kernels.map((kernel) => kernel.ns), 1e-9);
  const dress = (node) => {
    if (node.kind !== "kernel") return { kind: node.kind === "output" ? "plain output" : "plain", title: `${node.kind} ${node.label}, ${bytes(node.bytes)}` };
    const kernel = data.kernels[node.kernel];
    return { kind: "kernel", hue: hue(node.kernel), share: kernel.ns / dearest, sub: `${micros(kernel.ns)} · ${percent(kernel.ns)}`,
      title: `${equation(kernel)}, ${micros(kernel.ns)}, ${kernel.uops.length} uops` };
  };
  const choose = (node) => {
    if (node.kernel != null) go("kernel", node.kernel);
  };
  graphs.after = new Graph(home, data.program, dress, choose, showEdge, "Drag to move, scroll to zoom. The blue bar is a kernel's time; choose an edge to see why its ends are two kernels.");
}

function drawUops() {
  if (graphs.before) return;
  const dress = (node) => ({
    kind: `${node.kernels.length ? "kernel" : "plain"}${node.output ? " output" : ""}`, hue: node.kernels.length ? hue(node.kernels[0]) : null,
    title: `${node.label}: ${node.type}${node.kernels.length > 1 ? `, computed in ${node.kernels.length} kernels` : ""}`,
  });
  graphs.before = new Graph(document.getElementById("before"), data.uops, dress, (node) => go("uop", node.id), null, "The program as it was written. Uops of one colour are computed by one kernel.");
}

/** A table sortable by its columns: [title, value of a row, cell of a row, whether the value is a number]. */
function sortable(columns, rows, key, act) {
  const body = make("tbody");
  const heads = columns.map(([title, , , isNumber], place) => make("th", { class: isNumber ? "n" : "", scope: "col" },
    make("button", { type: "button", onclick: () => sort(place) }, title)));
  let order = { place: -1, down: false };
  function sort(place, down = order.place === place ? !order.down : columns[place][3]) {
    order = { place, down };
    const value = columns[place][1];
    const sorted = [...rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1));
    heads.forEach((head, column) => head.setAttribute("aria-sort", column !== place ? "none" : down ? "descending" : "ascending"));
    body.replaceChildren(...sorted.map((row) => make("tr", { class: "go", ...key(row), onclick: () => act(row) },
      columns.map(([, , cell, isNumber]) => make("td", { class: isNumber ? "n" : "" }, cell(row))))));
  }
  return { table: make("table", {}, make("thead", {}, make("tr", {}, heads)), body), sort };
}

function drawTable() {
  const rows = data.kernels.map((kernel, place) => ({ kernel, place }));
  const dearest = Math.max(...data.kernels.map((kernel) => kernel.ns), 1e-9);
  const runnerUp = (kernel) => Math.min(...kernel.rejected.filter((rival) => rival.extra != null).map((rival) => rival.extra), Infinity);
  const columns = [
    ["#", (row) => row.place, (row) => row.place + 1, true],
    ["kernel", (row) => equation(row.kernel), (row) => link(equation(row.kernel), () => go("kernel", row.place)), false],
    ...(data.kernels.some((kernel) => kernel.computes) ? [["computes", (row) => row.kernel.computes, (row) => row.kernel.computes, false]] : []),
    ["predicted", (row) => row.kernel.ns, (row) => [micros(row.kernel.ns), make("span", { class: "bar", style: `width:${(100 * row.kernel.ns) / dearest}%` })], true],
    ["share", (row) => row.kernel.ns, (row) => percent(row.kernel.ns), true],
    ["bound", (row) => row.kernel.bound, (row) => row.kernel.bound, false],
    ["uops", (row) => row.kernel.uops.length, (row) => row.kernel.uops.length, true],
    ["work", (row) => row.kernel.flops, (row) => flops(row.kernel.flops), true],
    ["moved", (row) => row.kernel.bytes, (row) => bytes(row.kernel.bytes), true],
    ["candidates", (row) => row.kernel.candidates, (row) => row.kernel.candidates, true],
    ["runner-up", (row) => runnerUp(row.kernel), (row) => (runnerUp(row.kernel) === Infinity ? "" : `+${micros(runnerUp(row.kernel))}`), true],
    ["rewrites", (row) => rewrites(row.kernel), (row) => (row.kernel.chains.length ? rewrites(row.kernel) : ""), true],
  ];
  const { table, sort } = sortable(columns, rows, (row) => ({ "data-kernel": row.place }), (row) => go("kernel", row.place));
  document.getElementById("table").append(table);
  sort(columns.findIndex(([name]) => name === "predicted"), true);
}

function drawRules() {
  const rows = Object.entries(data.rules).map(([name, rule]) => ({ name, rule }));
  const phases = (rule) => rule.by_phase.map((matches, phase) => [phase + 1, matches]).filter(([, matches]) => matches);
  const columns = [
    ["rule", (row) => row.name, (row) => link(row.name, () => go("rule", row.name)), false],
    ["family", (row) => row.rule.family, (row) => row.rule.family, false],
    ["equation", (row) => row.rule.equation, (row) => make("span", { class: "mono" }, row.rule.equation), false],
    ["level", (row) => row.rule.exactness, (row) => row.rule.exactness, false],
    ["certificate", (row) => row.rule.certificate, (row) => row.rule.certificate, false],
    ["kernels", (row) => (users.get(row.name) || new Set()).size, (row) => (users.get(row.name) || new Set()).size || "", true],
    ["matches", (row) => row.rule.matches, (row) => count(row.rule.matches), true],
    ["by phase", (row) => phases(row.rule)[0][0], (row) => phases(row.rule).map(([phase, matches]) => `${phase}: ${count(matches)}`).join("  "), false],
  ];
  const { table, sort } = sortable(columns, rows, () => ({}), (row) => go("rule", row.name));
  document.getElementById("rules").append(table);
  sort(6, true);
}

function drawRun() {
  const head = ["phase", "families that join", "iterations", "matches", "e-nodes", "classes", "ms", "ended by"];
  const rows = data.phases.map((phase, place) => [place + 1, phase.joined.join(", "), phase.iterations, count(phase.matches), count(phase.nodes), count(phase.classes), phase.ms.toFixed(1), phase.stop]);
  const isNumber = (place) => place > 1 && place < 7;
  const at = make("div", { id: "at", class: "soft", "aria-live": "polite" }, "Move over the curve to see what matched in an iteration.");
  const seconds = Object.entries(data.summary.seconds).map(([stage, value]) => `${stage} ${value.toFixed(2)} s`).join(" · ");
  document.getElementById("run").append(
    make("table", {}, make("thead", {}, make("tr", {}, head.map((title, place) => make("th", { class: isNumber(place) ? "n" : "", scope: "col" }, title)))),
      make("tbody", {}, rows.map((cells) => make("tr", {}, cells.map((cell, place) => make("td", { class: isNumber(place) ? "n" : "" }, cell)))))),
    make("h3", {}, "Growth"),
    make("figure", {}, growth(at), make("figcaption", {}, "E-nodes (blue) and classes (green) after each iteration; the bands are phases.")),
    at, make("h3", {}, "Wall clock"), make("p", {}, seconds));
}

function growth(at) {
  const width = 900, height = 220, left = 56, bottom = 22, steps = data.growth;
  const most = Math.max(...steps.map((step) => step.nodes), 1);
  const x = (place) => left + ((width - left - 10) * (place + 0.5)) / Math.max(steps.length, 1);
  const y = (value) => 8 + (height - bottom - 8) * (1 - value / most);
  const plot = make("svg:svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "e-nodes and classes over the iterations" });
  data.phases.forEach((_, phase) => {
    const mine = steps.map((step, place) => [step, place]).filter(([step]) => step.phase === phase).map(([, place]) => place);
    if (!mine.length) return;
    const start = x(mine[0] - 0.5), end = x(mine[mine.length - 1] + 0.5);
    plot.append(make("svg:rect", { class: phase % 2 ? "band odd" : "band", x: start, y: 8, width: end - start, height: height - bottom - 8 }));
    plot.append(make("svg:text", { x: start + 4, y: height - 7 }, phase + 1));
  });
  for (const value of [0, most / 2, most]) {
    plot.append(make("svg:line", { x1: left, x2: width - 10, y1: y(value), y2: y(value) }));
    plot.append(make("svg:text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, count(value)));
  }
  for (const name of ["nodes", "classes"])
    plot.append(make("svg:path", { class: name, d: steps.map((step, place) => `${place ? "L" : "M"}${x(place).toFixed(1)} ${y(step[name]).toFixed(1)}`).join("") }));
  const cursor = make("svg:line", { class: "cursor", y1: 8, y2: height - bottom, x1: -9, x2: -9 });
  plot.append(cursor);
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width) * width;
    const place = Math.min(steps.length - 1, Math.max(0, Math.floor(((share - left) / (width - left - 10)) * steps.length)));
    const step = steps[place];
    if (!step) return;
    cursor.setAttribute("x1", x(place));
    cursor.setAttribute("x2", x(place));
    const matches = Object.entries(step.matches).sort((a, b) => b[1] - a[1]).map(([name, times]) => `${name} ${count(times)}`);
    at.textContent = `Phase ${step.phase + 1}, iteration ${place + 1}: ${count(step.nodes)} e-nodes, ${count(step.classes)} classes. ${matches.join(", ") || "Nothing matched."}`;
  });
  return plot;
}

/* Search */

const known = [
  ...data.kernels.map((kernel, place) => ({ kind: "kernel", which: place, text: `${equation(kernel)}(${kernel.reads.join(", ")})  ${kernel.computes}` })),
  ...Object.entries(data.rules).map(([name, rule]) => ({ kind: "rule", which: name, text: `${name}  ${rule.equation}` })),
  ...data.uops.nodes.map((node) => ({ kind: "uop", which: node.id, text: `${node.label}  ${node.type}` })),
];
const find = document.getElementById("find");
const found = document.getElementById("found");
let hits = [], picked = 0;

/** The entries that contain all words. First those with the first word as a word of its own, or at the beginning. */
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const scored = [];
  for (const entry of known) {
    const lower = entry.text.toLowerCase();
    if (!words.every((word) => lower.includes(word))) continue;
    const tokens = lower.split(/[^\p{L}\p{N}_.]+/u);
    scored.push([lower.startsWith(words[0]) && tokens.includes(words[0]) ? 0 : tokens.includes(words[0]) ? 1 : lower.startsWith(words[0]) ? 2 : 3, entry]);
  }
  return scored.sort((a, b) => a[0] - b[0]).slice(0, 40).map(([, entry]) => entry);
}

function offer() {
  hits = search(find.value);
  picked = 0;
  const isAsked = find.value.trim() !== "";
  found.hidden = !isAsked;
  find.setAttribute("aria-expanded", isAsked);
  found.replaceChildren(...(hits.length || !isAsked
    ? hits.map((hit, place) => make("li", { role: "option", id: `hit${place}`, onpointerdown: (event) => { event.preventDefault(); take(place); } },
      make("span", {}, hit.kind), make("span", {}, hit.text)))
    : [make("li", { class: "none" }, "Nothing is called so.")]));
  mark();
}

function mark() {
  [...found.children].forEach((item, place) => item.setAttribute("aria-selected", place === picked && hits.length > 0));
  find.setAttribute("aria-activedescendant", hits.length ? `hit${picked}` : "");
  if (hits.length) found.children[picked].scrollIntoView({ block: "nearest" });
}

function take(place) {
  if (!hits[place]) return;
  const { kind, which } = hits[place];
  closeSearch();
  go(kind, which);
}

function closeSearch() {
  find.value = "";
  offer();
  find.blur();
}

find.addEventListener("input", offer);
find.addEventListener("blur", () => { found.hidden = true; find.setAttribute("aria-expanded", false); });
find.addEventListener("focus", offer);
find.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    picked = Math.min(hits.length - 1, Math.max(0, picked + (event.key === "ArrowDown" ? 1 : -1)));
    mark();
  } else if (event.key === "Enter") take(picked);
  else if (event.key === "Escape") closeSearch();
});

/* Keys, tabs, theme, divider */

const tabs = [...document.querySelectorAll('[role="tab"]')];
tabs.forEach((tab, place) => {
  tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(place + step + tabs.length) % tabs.length];
    open(next.getAttribute("aria-controls"));
    next.focus();
  });
});

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input:not([type=checkbox])") || event.ctrlKey || event.metaKey || event.altKey) return;
  const graph = graphs[current];
  if (event.key === "/") { event.preventDefault(); find.focus(); }
  else if (/^[1-5]$/.test(event.key)) open(tabs[event.key - 1].getAttribute("aria-controls"));
  else if (event.key === "t") switchTheme();
  else if (graph && (event.key === "+" || event.key === "=")) graph.zoom(1.4);
  else if (graph && event.key === "-") graph.zoom(1 / 1.4);
  else if (graph && event.key === "0") graph.fit();
  else if (event.key === "Escape") Object.values(graphs).forEach((graph) => graph.light([], null));
});

function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
}
document.getElementById("theme").addEventListener("click", switchTheme);

const divider = document.getElementById("divider");
const widen = (width) => { details.style.width = `${Math.max(300, Math.min(innerWidth * 0.75, width))}px`; };
divider.addEventListener("pointerdown", (event) => {
  event.preventDefault();
  const move = (pointer) => widen(innerWidth - pointer.clientX);
  addEventListener("pointermove", move);
  addEventListener("pointerup", () => removeEventListener("pointermove", move), { once: true });
});
divider.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: 40, ArrowRight: -40 }[event.key];
  if (step) widen(details.clientWidth + step);
});

/* Begin */

drawKernels();
drawTable();
drawRun();
drawRules();
open("after");
const [, kind, which] = decodeURIComponent(location.hash).match(/^#(kernel|uop|rule)=(.*)$/) || [];
if (kind === "kernel" && writer.has(which)) go("kernel", writer.get(which), true);
else if (kind === "uop" && data.uops.nodes.some((node) => node.id === which)) go("uop", which, true);
else if (kind === "rule" && data.rules[which]) go("rule", which, true);
else if (data.kernels.length) {
  const dearest = data.kernels.reduce((best, kernel, place) => (kernel.ns > data.kernels[best].ns ? place : best), 0);
  shows.kernel(dearest);
  graphs.after.light([], null);
}
document.documentElement.dataset.ready = "yes";
