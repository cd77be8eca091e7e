/* Navigation: what is chosen, which view is open, and the address that names both */

const graphs = {};
const tabs = [...document.querySelectorAll('[role="tab"]')];
const viewNames = tabs.map((tab) => tab.getAttribute("aria-controls"));
const homes = { kernel: ["kernels", "prices", "rewrites", "source"], uop: ["uops"], rule: ["rules", "kernels", "uops", "prices", "run"] };
let current = "kernels";
let chosen = { kind: null, which: null };
let kernel = null;

const shows = {
  kernel(place) {
    kernel = place;
    showKernel(place);
    markKernel(true);
    drawPlayer(place);
    drawSource(place);
  },
  uop(id) {
    drawUops(id);
    showUop(id);
    const { in: above, out } = graphs.uops.near.get(id);
    graphs.uops.light([id, ...above, ...out], id);
    graphs.kernels.light(uopNode(id).kernels.map((place) => `k${place}`), null);
  },
  rule(name) {
    showRule(name);
    graphs.kernels.light([...(users.get(name) || [])].map((place) => `k${place}`), null);
  },
};

/** Marks the chosen kernel in all views. isDimming: also pale what is not beside the kernel. */
function markKernel(isDimming) {
  const { reads, uops } = data.kernels[kernel];
  const near = [...reads.filter((name) => writer.has(name)).map((name) => writer.get(name)), ...readers[kernel]];
  const lit = [`k${kernel}`, ...near.map((place) => `k${place}`), ...reads.map((name) => `in:${name}`)];
  graphs.kernels.light(isDimming ? lit : [], `k${kernel}`);
  if (graphs.uops) graphs.uops.light(graphs.uops.graph.nodes.filter((node) => uops.includes(node.id) || (node.uops && node.kernels.includes(kernel))).map((node) => node.id), null);
  for (const row of document.querySelectorAll("#prices tbody tr")) row.classList.toggle("chosen", Number(row.dataset.kernel) === kernel);
}

/** Brings what is chosen into sight in the view that is open. */
function reveal() {
  if (current === "prices") document.querySelector("#prices tr.chosen")?.scrollIntoView({ block: "nearest" });
  if (current === "kernels" && chosen.kind === "kernel") graphs.kernels.center(`k${kernel}`);
  if (current === "uops" && chosen.kind === "uop") graphs.uops.center(chosen.which);
  if (current === "uops" && chosen.kind === "kernel") {
    markKernel(true);
    const first = graphs.uops.graph.nodes.find((node) => graphs.uops.elements.get(node.id).classList.contains("on"));
    if (first) graphs.uops.center(first.id);
  }
}

/** Show a kernel, a uop or a rule: its details, and its place in the views. */
function go(kind, which) {
  chosen = { kind, which };
  if (!homes[kind].includes(current)) open(homes[kind][0]);
  shows[kind](which);
  reveal();
  remember();
}

function open(view) {
  current = view;
  for (const tab of tabs) {
    const isOpen = tab.getAttribute("aria-controls") === view;
    tab.setAttribute("aria-selected", isOpen);
    tab.tabIndex = isOpen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !isOpen;
  }
  if (view === "uops") drawUops();
  if (graphs[view]) graphs[view].appear();
  if (view === "rewrites") fitPlayer();
}

/** Opens a view as a user does: what is chosen is in sight there, and the address names the view. */
function turnTo(view) {
  open(view);
  reveal();
  remember();
}

/** Writes the view and what is chosen into the address. */
function remember() {
  const fields = {};
  if (Object.keys(parts).length > 1) fields.part = part;
  if (current !== "kernels") fields.tab = current;
  if (chosen.kind) fields[chosen.kind] = chosen.kind === "kernel" ? data.kernels[chosen.which].name : chosen.which;
  if (current === "rewrites" && player.step) fields.step = player.step;
  history.replaceState(null, "", `#${Object.entries(fields).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`);
}

/** Opens what the address names. */
function obey() {
  const asked = address();
  if (asked.part && asked.part !== part && parts[asked.part]) return location.reload();
  const found = {
    kernel: asked.kernel == null ? null : placeOf(asked.kernel),
    uop: asked.uop != null && uopNode(asked.uop) ? asked.uop : null,
    rule: data.rules[asked.rule] ? asked.rule : null,
  };
  const kind = Object.keys(found).find((name) => found[name] != null);
  const view = viewNames.includes(asked.tab) ? asked.tab : kind ? homes[kind][0] : "kernels";
  const wanted = Object.keys(found).find((name) => asked[name] != null);
  open(view);
  if (kind) {
    chosen = { kind, which: found[kind] };
    shows[kind](found[kind]);
    if (kind === "kernel" && asked.step) player.show(Number(asked.step));
    reveal();
  } else if (data.kernels.length) {
    const dearest = data.kernels.reduce((best, each, place) => (each.ns > data.kernels[best].ns ? place : best), 0);
    chosen = { kind: "kernel", which: dearest };
    shows.kernel(dearest);
    if (!graphs.kernels.isWhole) reveal();
    markKernel(false);
  }
  if (wanted && !kind) details.prepend(make("p", { class: "bad", role: "alert" }, `There is no ${wanted} called “${asked[wanted]}” here.`));
}

/* The two drawings */

const swatch = (style, text) => make("span", { class: "swatch" }, make("i", { class: style }), text);

function drawKernels() {
  const dearest = Math.max(...data.kernels.map((each) => each.ns), 1e-9);
  const dress = (node) => {
    if (node.kind !== "kernel") return { kind: node.kind === "output" ? "plain output" : "plain", title: `${node.kind} ${node.label}: ${node.sub}, ${bytes(node.bytes)}` };
    const { ns, uops } = data.kernels[node.kernel];
    return { kind: "kernel", hue: hue(node.kernel), share: ns / dearest, title: `${node.label}, ${micros(ns)}, ${uops.length} uops` };
  };
  const legend = [
    make("div", {}, swatch("kernel", "kernel, with its predicted time"), swatch("plain", "input"), swatch("plain output", "output"),
      swatch("bar", "its time beside the longest"), swatch("here", "chosen"), swatch("line", "buffer: choose it to see why its ends are two kernels")),
    make("div", {}, "Drag to move, scroll to zoom, + − 0."),
  ];
  graphs.kernels = new Graph(document.getElementById("kernels"), data.program, {
    dress, legend, chooseEdge: showEdge, type: (edge) => (edge.from.startsWith("k") ? edge.type : null),
    choose: (node) => node.kernel != null && go("kernel", node.kernel),
  });
}

const uopNodes = new Map(data.uops.nodes.map((node) => [node.id, node]));
const uopNode = (id) => uopNodes.get(id);
const layers = data.uops.folded;
const layerOf = new Map((layers?.nodes ?? []).flatMap((node) => (node.uops ?? []).map((id) => [id, node.id])));
let drawn = null;

/** Draws the layers, one layer (its id), or all uops ("all"). wanted: a uop that has to be in the drawing. */
function drawUops(wanted, what) {
  const isThere = graphs.uops && (wanted == null || graphs.uops.byId.has(wanted));
  const next = what ?? (isThere ? drawn : !layers ? "all" : wanted == null ? "layers" : layerOf.get(wanted) ?? "layers");
  if (next === drawn) return;
  drawn = next;
  const home = document.getElementById("uops");
  const layer = layers?.nodes.find((node) => node.id === next);
  const full = (graph) => ({ ...graph, nodes: graph.nodes.map((node) => ({ ...uopNode(node.id), ...node })) });
  const graph = next === "all" ? data.uops : next === "layers" ? layers : full(layer.inner);
  const dress = (node) => {
    const isOutside = layer && !layer.uops.includes(node.id);
    const own = node.kernels.length === 1 || (node.kernels.length && !node.uops);
    return {
      kind: `${own && !isOutside ? "kernel" : "plain"}${node.output ? " output" : ""}${isOutside ? " outside" : ""}`, hue: own ? hue(node.kernels[0]) : null,
      title: node.uops ? `${node.label}: ${node.uops.length} uops in ${node.kernels.length} kernels; open it` : `${node.label}: ${node.type}${node.kernels.length > 1 ? `, computed in ${node.kernels.length} kernels` : ""}`,
    };
  };
  const legend = [
    make("div", {}, swatch("kernel", "one colour: one kernel computes them"), swatch("plain", next === "layers" ? "input, or a layer in several kernels" : "input, index map or constant"), swatch("plain output", "output"), swatch("here", "chosen")),
    make("div", {}, next === "layers" ? "Choose a layer to open it." : "The program as it was written."),
  ];
  home.replaceChildren();
  graphs.uops = new Graph(home, graph, {
    dress, legend, choose: (node) => (node.uops ? openLayer(node.id) : go("uop", node.id)),
    type: (edge) => edge.type ?? uopNode(edge.from).type,
  });
  if (layers) home.append(make("div", { class: "crumbs" },
    make("button", { type: "button", "aria-pressed": next === "layers", onclick: () => openLayer("layers") }, `Layers (${layers.nodes.filter((node) => node.uops).length})`),
    make("button", { type: "button", "aria-pressed": next === "all", onclick: () => openLayer("all") }, `All uops (${count(data.uops.nodes.length)})`),
    layer ? make("span", {}, layer.label) : null));
  if (!home.hidden) graphs.uops.appear();
}

function openLayer(what) {
  drawUops(null, what);
  if (kernel != null && chosen.kind === "kernel") markKernel(true);
}

/* Tabs, keys, theme, divider */

tabs.forEach((tab, place) => {
  tab.addEventListener("click", () => turnTo(viewNames[place]));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(place + step + tabs.length) % tabs.length];
    turnTo(next.getAttribute("aria-controls"));
    next.focus();
  });
});

document.addEventListener("keydown", (event) => {
  if (event.target.matches("input:not([type=checkbox]), select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const graph = graphs[current];
  if (event.key === "/") { event.preventDefault(); find.focus(); }
  else if (/^[1-7]$/.test(event.key)) turnTo(viewNames[event.key - 1]);
  else if (event.key === "t") switchTheme();
  else if (current === "rewrites" && player.press(event.key)) event.preventDefault();
  else if (graph && (event.key === "+" || event.key === "=")) graph.zoom(1.4);
  else if (graph && event.key === "-") graph.zoom(1 / 1.4);
  else if (graph && event.key === "0") graph.fit();
  else if (event.key === "Escape") for (const name of ["kernels", "uops"]) graphs[name]?.light([], null);
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

drawTiles();
drawKernels();
drawPrices();
drawRun();
drawRules();
obey();
addEventListener("hashchange", obey);
document.documentElement.dataset.ready = "yes";
