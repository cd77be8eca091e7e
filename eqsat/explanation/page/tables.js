/* The head of the page, and tables */

function drawTiles() {
  const { uops, kernels_before, kernels_after, target, before_ns, after_ns, nodes, classes, candidates } = data.summary;
  const arrow = () => make("span", { class: "to" }, " → ");
  const measured = data.kernels.reduce((sum, kernel) => sum + (kernel.measured ?? 0), 0);
  const tiles = [
    ["uops", count(uops)], ["kernels", [count(kernels_before), arrow(), count(kernels_after)]],
    [`predicted, ${target}`, [millis(before_ns), arrow(), millis(after_ns)]], ...(isMeasured ? [["measured", millis(measured)]] : []),
    ["e-nodes", count(nodes)], ["classes", count(classes)], ["candidates", count(candidates)],
  ];
  document.querySelector(".tiles").replaceChildren(...tiles.map(([name, value]) => fact(name, value)));
  if (Object.keys(parts).length < 2) return;
  const choice = document.getElementById("part");
  choice.replaceChildren(...Object.keys(parts).map((name) => make("option", { value: name, selected: name === part }, name)));
  choice.addEventListener("change", () => { location.hash = `part=${encodeURIComponent(choice.value)}`; });
  choice.parentElement.hidden = false;
}

/** A table sortable by its columns: [title, value of a row, cell of a row, whether the value is a number, class]. Columns
 *  of the classes `minor` and `least` are left out where the table is narrow. */
function sortable(columns, rows, key, act) {
  const body = make("tbody");
  const heads = columns.map(([title, , , isNumber, extra = ""], place) => make("th", { class: `${isNumber ? "n" : ""} ${extra}`, scope: "col" },
    make("button", { type: "button", onclick: () => sort(place) }, title)));
  let order = { place: -1, down: false };
  function sort(place, down = order.place === place ? !order.down : columns[place][3]) {
    order = { place, down };
    const value = columns[place][1];
    const sorted = [...rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1));
    heads.forEach((head, column) => head.setAttribute("aria-sort", column !== place ? "none" : down ? "descending" : "ascending"));
    body.replaceChildren(...sorted.map((row) => make("tr", { class: "go", ...key(row), onclick: () => act(row) },
      columns.map(([, , cell, isNumber, extra = ""]) => make("td", { class: `${isNumber ? "n" : ""} ${extra}` }, cell(row))))));
  }
  return { table: make("table", {}, make("thead", {}, make("tr", {}, heads)), body), sort };
}

function drawPrices() {
  const rows = data.kernels.map((kernel, place) => ({ kernel, place }));
  const dearest = Math.max(...data.kernels.map((kernel) => kernel.ns), 1e-9);
  const runnerUp = (kernel) => Math.min(...kernel.rejected.filter((rival) => rival.extra != null).map((rival) => rival.extra), Infinity);
  const columns = [
    ["#", (row) => row.place, (row) => row.place + 1, true],
    ["kernel", (row) => equation(row.kernel), (row) => [link(equation(row.kernel), () => go("kernel", row.place)), row.kernel.computes ? make("div", { class: "soft" }, row.kernel.computes) : null], false, "wide"],
    ["predicted", (row) => row.kernel.ns, (row) => [micros(row.kernel.ns), make("span", { class: "bar", style: `width:${(100 * row.kernel.ns) / dearest}%` })], true],
    ...(isMeasured ? [
      ["measured", (row) => row.kernel.measured ?? 0, (row) => micros(row.kernel.measured), true],
      ["pred/meas", (row) => row.kernel.ns / (row.kernel.measured || Infinity), (row) => quotient(row.kernel), true],
    ] : []),
    ["share", (row) => row.kernel.ns, (row) => percent(row.kernel.ns), true],
    ["bound", (row) => row.kernel.bound, (row) => row.kernel.bound, false],
    ["uops", (row) => row.kernel.uops.length, (row) => row.kernel.uops.length, true, "minor"],
    ["work", (row) => row.kernel.flops, (row) => flops(row.kernel.flops), true],
    ["moved", (row) => row.kernel.bytes, (row) => bytes(row.kernel.bytes), true],
    ["candidates", (row) => row.kernel.candidates, (row) => row.kernel.candidates, true, "least"],
    ["runner-up", (row) => runnerUp(row.kernel), (row) => (runnerUp(row.kernel) === Infinity ? "" : signed(runnerUp(row.kernel))), true, "minor"],
    ["rewrites", (row) => rewrites(row.kernel), (row) => (row.kernel.chains.length ? rewrites(row.kernel) : ""), true, "least"],
  ];
  const { table, sort } = sortable(columns, rows, (row) => ({ "data-kernel": row.place }), (row) => go("kernel", row.place));
  document.getElementById("prices").append(table);
  sort(columns.findIndex(([name]) => name === "predicted"), true);
}

function drawRules() {
  const rows = Object.entries(data.rules).map(([name, rule]) => ({ name, rule }));
  const phases = (rule) => rule.by_phase.map((matches, phase) => [phase + 1, matches]).filter(([, matches]) => matches);
  const columns = [
    ["rule", (row) => row.name, (row) => [link(row.name, () => go("rule", row.name)), make("div", { class: "soft" }, row.rule.family)], false],
    ["equation", (row) => row.rule.equation, (row) => make("span", { class: "mono" }, row.rule.equation), false, "wide"],
    ["level", (row) => row.rule.exactness, (row) => [row.rule.exactness, make("div", { class: "soft" }, row.rule.certificate)], false, "minor"],
    ["kernels", (row) => (users.get(row.name) || new Set()).size, (row) => (users.get(row.name) || new Set()).size || "", true],
    ["matches", (row) => row.rule.matches, (row) => count(row.rule.matches), true],
    ["by phase", (row) => phases(row.rule)[0][0], (row) => phases(row.rule).map(([phase, matches]) => `${phase}: ${count(matches)}`).join("  "), false, "least"],
  ];
  const { table, sort } = sortable(columns, rows, () => ({}), (row) => go("rule", row.name));
  document.getElementById("rules").append(table);
  sort(columns.findIndex(([name]) => name === "matches"), true);
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

