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

