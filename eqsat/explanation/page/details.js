/* Details of a kernel, a uop, a rule or an edge */

const details = document.getElementById("details");

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
      fact("predicted", micros(kernel.ns)), ...(kernel.measured == null ? [] : [fact("measured", micros(kernel.measured)), fact("predicted / measured", quotient(kernel))]),
      fact("of the program", percent(kernel.ns)), fact("bound by", kernel.bound),
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
    make("td", { class: "n" }, rival.extra == null ? "" : signed(rival.extra),
      !(rival.extra > 0) ? null : make("span", { class: "bar extra", style: `width:${(100 * rival.extra) / dearest}%` }))));
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

function chain({ output, start, end, birth, steps }, place) {
  const list = make("ol", { class: "chain" });
  for (const step of birth) list.append(stepItem(step, ""));
  const play = make("button", { type: "button", class: "link play", onclick: () => playFrom(place, 1) }, "▶ play");
  list.append(endItem(birth.length ? "the buffer" : "the uops", `${output} = ${start}`));
  steps.forEach((step, number) => list.append(stepItem(step, number + 1, () => playFrom(place, number + 1))));
  list.append(endItem("the kernel", `${output} = ${end}`));
  const box = make("input", { type: "checkbox", onchange: () => list.classList.toggle("only-key", box.checked) });
  const toggle = make("label", { class: "switch" }, box, "without movements");
  return [make("h3", {}, `Rewrites: ${steps.length} `, steps.length ? [play, toggle] : null), list];
}

const endItem = (title, text) => make("li", { class: "end" }, make("div", { class: "head" }, make("strong", {}, title)), make("div", { class: "term" }, text));

function stepItem(step, number, act) {
  const rule = data.rules[step.rule];
  const [before, after] = difference(step.before, step.after);
  return make("li", { class: rule && rule.family === "movement" ? "movement" : "" },
    make("div", { class: "head" }, act ? make("button", { type: "button", class: "number link", title: "Show the graph before and after", onclick: act }, number) : make("span", { class: "number" }, number), ruleLink(step.rule), step.times ? `×${step.times}` : null,
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
  const node = uopNode(id);
  const sources = data.uops.edges.filter((edge) => edge.to === id).map((edge) => edge.from);
  const out = data.uops.edges.filter((edge) => edge.from === id).map((edge) => edge.to);
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
  const [from, to] = [edge.from, edge.to].map((id) => graphs.kernels.byId.get(id));
  const why = edge.why;
  graphs.kernels.light([edge.from, edge.to], null, edge);
  fill(
    make("h2", {}, edge.buffer, make("small", {}, ` ${edge.type}, ${bytes(edge.bytes)}${edge.order}`)),
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

