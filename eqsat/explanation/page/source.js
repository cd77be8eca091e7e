/* The text of a kernel */

const WORD = /(\/\*[^]*?\*\/|\/\/[^\n]*)|("(?:[^"\\\n]|\\.)*")|(^[ \t]*#[^\n]*)|\b(alignas|auto|bool|break|case|char|const|continue|do|double|else|extern|float|for|goto|if|inline|int|int\d+_t|long|restrict|return|short|signed|size_t|sizeof|static|struct|switch|typedef|uint\d+_t|unsigned|void|volatile|while|__\w+)\b|\b(eq_\w+)\b|\b(0x[\da-fA-F]+|\d[\d.]*(?:e[+-]?\d+)?[fuUlL]*)\b/gm;
const STYLES = [null, "comment", "text", "directive", "word", "own", "number"];

function drawSource(place) {
  const home = document.getElementById("source");
  const { text, name, writes } = data.kernels[place];
  if (text == null) {
    home.replaceChildren(make("p", { class: "soft" }, "The page was written without the texts of the kernels."));
    return;
  }
  const code = data.texts[text];
  const sharing = data.kernels.filter((each) => each.text === text).length;
  const copy = make("button", { type: "button", class: "copy", onclick: async () => { await navigator.clipboard?.writeText(code); copy.textContent = "Copied"; } }, "Copy");
  home.replaceChildren(
    make("div", { class: "head" }, make("h2", {}, `${writes.join(", ")} = ${name}`), make("span", { class: "soft" }, `${data.summary.language}, ${count(code.split("\n").length)} lines${sharing > 1 ? `; ${sharing} launches run it` : ""}`), copy),
    make("pre", { class: "code", tabindex: 0 }, ...coloured(code)));
}

/** A text in C or CUDA as pieces: comments, words, numbers and eqsat's own functions have a style each. */
function coloured(code) {
  const pieces = [];
  let end = 0;
  for (const match of code.matchAll(WORD)) {
    if (match.index > end) pieces.push(code.slice(end, match.index));
    pieces.push(make("span", { class: STYLES[match.slice(1).findIndex((group) => group != null) + 1] }, match[0]));
    end = match.index + match[0].length;
  }
  return [...pieces, code.slice(end)];
}
