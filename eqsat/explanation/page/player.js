/* The player of a chain: the term of a kernel as a graph, before and after each rewrite */

const PACE_MS = 1400;
const player = { place: null, output: 0, step: 0, timer: null, show() {}, stop() {}, press: () => false };

/** Draws the player for a kernel, at the first step. */
function drawPlayer(place) {
  const home = document.getElementById("rewrites");
  const kernelNow = data.kernels[place];
  player.stop();
  Object.assign(player, { place, output: 0, step: 0 });
  if (!kernelNow.chains.length) {
    Object.assign(player, { show() {}, press: () => false });
    home.replaceChildren(make("p", { class: "soft" }, "The rewrites of this kernel can no longer be found."));
    return;
  }
  const before = make("div", { class: "pane", "aria-label": "before" }), after = make("div", { class: "pane", "aria-label": "after" });
  const stepText = make("div", { class: "step-text", "aria-live": "polite" });
  const slider = make("input", { type: "range", min: 1, "aria-label": "step", oninput: () => show(Number(slider.value)) });
  const button = (text, title, act) => make("button", { type: "button", title, "aria-label": title, onclick: act }, text);
  const play = button("▶", "Play (space)", toggle);
  const number = make("span", { class: "soft" });
  const outputs = kernelNow.chains.length > 1
    ? make("select", { "aria-label": "output", onchange: (event) => { player.output = Number(event.target.value); show(1); } }, kernelNow.chains.map((each, place) => make("option", { value: place }, each.output)))
    : null;
  const chainNow = () => kernelNow.chains[player.output];

  function show(step) {
    const { steps, states } = chainNow();
    player.step = Math.max(1, Math.min(steps.length, step || 1));
    slider.max = Math.max(steps.length, 1);
    slider.value = player.step;
    number.textContent = `${steps.length ? player.step : 0} of ${steps.length}`;
    if (!steps.length) {
      stepText.replaceChildren(make("p", { class: "soft" }, "No rule was needed: the kernel is the uop as it was written."));
      return;
    }
    const now = steps[player.step - 1];
    const [was, is] = difference(now.before, now.after);
    stepText.replaceChildren(
      make("div", { class: "head" }, ruleLink(now.rule), now.times ? `×${now.times}` : null, make("span", { class: "equation" }, data.rules[now.rule]?.equation ?? "")),
      make("div", { class: "term" }, was), make("div", { class: `term after${now.backwards ? " back" : ""}` }, is));
    if (!states) {
      before.replaceChildren(make("p", { class: "soft" }, "The term is too large to draw."));
      after.replaceChildren();
      return;
    }
    const [gone, fresh] = states.changes[player.step - 1].map((root) => nodesBelow(states, root));
    drawTerm(before, "before", states, states.roots[player.step - 1], new Set([...gone].filter((node) => !fresh.has(node))), "gone");
    drawTerm(after, "after", states, states.roots[player.step], new Set([...fresh].filter((node) => !gone.has(node))), "fresh");
    if (current === "rewrites") remember();
  }

  function toggle() {
    if (player.timer) return stop();
    if (player.step >= chainNow().steps.length) show(1);
    play.textContent = "❚❚";
    player.timer = setInterval(() => {
      if (player.step >= chainNow().steps.length) return stop();
      show(player.step + 1);
    }, PACE_MS);
  }

  function stop() {
    clearInterval(player.timer);
    player.timer = null;
    play.textContent = "▶";
  }
  player.stop = stop;
  player.show = show;
  player.press = (key) => {
    const act = { ArrowLeft: () => show(player.step - 1), ArrowRight: () => show(player.step + 1), Home: () => show(1), End: () => show(chainNow().steps.length), " ": toggle }[key];
    if (act) act();
    return Boolean(act);
  };
  home.replaceChildren(
    make("div", { class: "bar-of-player" }, make("h2", {}, equation(kernelNow)), outputs,
      make("span", { class: "controls" }, button("«", "First (Home)", () => show(1)), button("‹", "Back (←)", () => show(player.step - 1)), play,
        button("›", "On (→)", () => show(player.step + 1)), button("»", "Last (End)", () => show(chainNow().steps.length))), slider, number),
    stepText,
    make("div", { class: "panes" }, make("figure", {}, make("figcaption", {}, "before ", swatch("gone", "goes")), before), make("figure", {}, make("figcaption", {}, "after ", swatch("fresh", "comes")), after)));
  show(1);
}

/** Draws the step again, once the view has a size. */
function fitPlayer() {
  if (player.place != null) player.show(player.step);
}

/** Opens the player of a chain of the chosen kernel at a step. */
function playFrom(output, step) {
  open("rewrites");
  player.output = output;
  player.show(step);
  remember();
}

function nodesBelow(states, root) {
  const seen = new Set([root]), waiting = [root];
  while (waiting.length) for (const child of states.children[waiting.pop()]) if (!seen.has(child)) { seen.add(child); waiting.push(child); }
  return seen;
}

function drawTerm(home, name, states, root, marked, style) {
  if (!home.clientWidth) return;
  home.replaceChildren();
  const dress = (node) => ({ kind: `term-node${marked.has(node.number) ? ` ${style}` : ""}${node.isLeaf ? " plain" : ""}`, title: node.label });
  const graph = new Graph(home, termDrawing(states, root), { dress, choose() {}, legend: [], isPlain: true });
  graph.fit();
}

/** A term with its operands above it: rows by the distance from the root, leaves side by side, others below their operands. */
function termDrawing(states, root) {
  const LETTER = 6.7, ROW = 46, GAP = 14;
  const row = new Map();
  const seen = [...nodesBelow(states, root)].sort((a, b) => b - a);
  row.set(root, 0);
  for (const number of seen) for (const child of states.children[number]) row.set(child, Math.max(row.get(child) ?? 0, (row.get(number) ?? 0) + 1));
  const width = (number) => Math.min(LETTER * states.labels[number].length + 18, 420);
  const x = new Map();
  let right = 0;
  const settle = (number) => {
    if (x.has(number)) return;
    x.set(number, null);
    const below = states.children[number];
    below.forEach(settle);
    const known = below.map((child) => x.get(child)).filter((value) => value != null);
    if (known.length) x.set(number, known.reduce((sum, value) => sum + value, 0) / known.length);
    else { x.set(number, right + width(number) / 2); right += width(number) + GAP; }
  };
  settle(root);
  const rows = [...new Set(row.values())].sort((a, b) => a - b);
  for (const level of rows) {
    const members = seen.filter((number) => row.get(number) === level).sort((a, b) => x.get(a) - x.get(b));
    for (let place = 1; place < members.length; place += 1) {
      const least = x.get(members[place - 1]) + (width(members[place - 1]) + width(members[place])) / 2 + GAP;
      if (x.get(members[place]) < least) x.set(members[place], least);
    }
  }
  const left = Math.min(...seen.map((number) => x.get(number) - width(number) / 2)) - 10;
  const deepest = rows[rows.length - 1];
  const place = new Map(seen.map((number) => [number, { x: x.get(number) - left, y: 24 + (deepest - row.get(number)) * ROW }]));
  const nodes = seen.map((number) => ({ id: `t${number}`, number, isLeaf: !states.children[number].length,
    label: LETTER * states.labels[number].length + 18 > 420 ? `${states.labels[number].slice(0, 58)}…` : states.labels[number], ...place.get(number), w: width(number), h: 24 }));
  const edges = seen.flatMap((number) => states.children[number].map((child) => ({ from: `t${child}`, to: `t${number}`,
    route: [place.get(child).x, place.get(child).y + 12, place.get(number).x, place.get(number).y - 12] })));
  return { nodes, edges, width: Math.max(...nodes.map((node) => node.x + node.w / 2)) + 10, height: 48 + deepest * ROW };
}
