/* The data, and how it is written */

const parts = JSON.parse(document.getElementById("data").textContent);
const address = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const part = parts[address().part] ? address().part : Object.keys(parts)[0];
const data = parts[part];
const total = data.summary.after_ns;
const isMeasured = data.kernels.some((kernel) => kernel.measured != null);

const micros = (ns) => (ns == null ? "" : ns < 1e5 ? `${(ns / 1e3).toFixed(2)} µs` : `${(ns / 1e3).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} µs`);
const count = (n) => n.toLocaleString("en", { maximumFractionDigits: 0 });
const signed = (ns) => (ns == null ? "" : Math.abs(ns) < 5 ? "±0" : `${ns < 0 ? "−" : "+"}${micros(Math.abs(ns))}`);
const millis = (ns) => (ns < 1e6 ? micros(ns) : `${(ns / 1e6).toLocaleString("en", { maximumFractionDigits: ns < 1e8 ? 2 : 0 })} ms`);
const quotient = (kernel) => (kernel.measured ? (kernel.ns / kernel.measured).toFixed(2) : "");
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


/** The place of the kernel with this name: of the buffer that it writes, or its own; null if there is none. */
function placeOf(name) {
  if (writer.has(name)) return writer.get(name);
  const named = data.kernels.findIndex((kernel) => kernel.name === name);
  return named >= 0 ? named : null;
}
