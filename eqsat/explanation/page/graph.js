"use strict";

/** The smallest scale at which labels are easy to read. */
const READABLE = 0.7;
const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; `on…` attributes are listeners, strings become text. */
function make(name, attributes = {}, ...children) {
  const element = name.startsWith("svg:")
    ? document.createElementNS(SVG, name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

/** A drawing of a graph, to be moved, zoomed, and walked through with the arrow keys. */
class Graph {
  /**
   * @param home     the element that contains the drawing
   * @param graph    nodes, edges, width, height
   * @param dress    (node) → {kind, hue, share, title}
   * @param choose   (node) called when a node is chosen
   * @param chooseEdge  (edge) called when an edge is chosen; edges cannot be chosen without it
   * @param type     (edge) → shape and dtype of the value that the edge carries; null to write none
   * @param legend   elements that explain the drawing
   * @param isPlain  without buttons
   */
  constructor(home, graph, { dress, choose, chooseEdge, type = () => null, legend, isPlain = false }) {
    this.home = home;
    this.graph = graph;
    this.choose = choose;
    this.byId = new Map(graph.nodes.map((node) => [node.id, node]));
    this.near = new Map(graph.nodes.map((node) => [node.id, { in: [], out: [] }]));
    this.elements = new Map();
    this.world = make("svg:g", { class: "world" });
    this.svg = make("svg:svg", { role: "group", "aria-label": home.getAttribute("aria-label") || "graph" }, this.world);
    this.view = { x: 0, y: 0, scale: 1 };
    this.isFitted = false;
    this.isWhole = false;
    this.drawEdges(chooseEdge, type);
    for (const node of graph.nodes) this.drawNode(node, dress(node));
    home.append(this.svg);
    if (!isPlain) home.append(this.tools(), make("div", { class: "legend" }, legend));
    this.listen();
  }

  drawEdges(chooseEdge, type) {
    this.edges = [];
    const written = new Set();
    for (const edge of this.graph.edges) {
      this.near.get(edge.from).out.push(edge.to);
      this.near.get(edge.to).in.push(edge.from);
      const path = make("svg:path", { class: "edge", d: curve(edge.route) });
      this.world.append(path);
      this.edges.push({ edge, path });
      if (chooseEdge) {
        const hit = make("svg:path", { class: "edge hit", d: curve(edge.route), onclick: () => chooseEdge(edge) });
        hit.append(make("svg:title", {}, `${edge.buffer}: ${edge.type}`));
        this.world.append(hit);
      }
      const text = type(edge);
      if (text == null || written.has(`${edge.from} ${text}`)) continue;
      written.add(`${edge.from} ${text}`);
      this.world.append(make("svg:text", { class: "type", x: edge.route[0] + 5, y: edge.route[1] + 12 }, text));
    }
  }

  drawNode(node, look) {
    const left = node.x - node.w / 2, top = node.y - node.h / 2;
    const group = make("svg:g", {
      class: `node ${look.kind}`, style: look.hue == null ? null : `--hue:${look.hue}`, tabindex: -1,
      role: "button", "aria-label": look.title, "data-id": node.id,
    });
    group.append(make("svg:title", {}, look.title));
    group.append(make("svg:rect", { class: "body", x: left, y: top, width: node.w, height: node.h }));
    const lines = node.sub ? [node.y - 3, node.y + 10] : [node.y + 4];
    group.append(make("svg:text", { x: node.x, y: lines[0] }, node.label));
    if (node.sub) group.append(make("svg:text", { x: node.x, y: lines[1], class: "sub" }, node.sub));
    if (look.share != null) {
      const width = Math.max(1, (node.w - 8) * look.share);
      group.append(make("svg:rect", { class: "share", x: left + 4, y: top + node.h - 5, width, height: 3 }));
    }
    this.world.append(group);
    this.elements.set(node.id, group);
  }

  tools() {
    const button = (text, title, act) => make("button", { type: "button", title, "aria-label": title, onclick: act }, text);
    return make("div", { class: "tools" },
      button("+", "Zoom in (+)", () => this.zoom(1.4)),
      button("−", "Zoom out (−)", () => this.zoom(1 / 1.4)),
      button("⤢", "Show all (0)", () => this.fit()));
  }

  listen() {
    let held = null;
    this.svg.addEventListener("pointerdown", (event) => {
      held = { x: event.clientX, y: event.clientY, view: { ...this.view }, moved: false, group: event.target.closest(".node") };
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!held) return;
      const dx = event.clientX - held.x, dy = event.clientY - held.y;
      if (Math.abs(dx) + Math.abs(dy) > 4) held.moved = true;
      if (!held.moved) return;
      this.svg.setPointerCapture(event.pointerId);
      this.svg.classList.add("dragged");
      this.show({ ...held.view, x: held.view.x + dx, y: held.view.y + dy });
    });
    this.svg.addEventListener("pointerup", () => {
      const mine = held;
      held = null;
      this.svg.classList.remove("dragged");
      if (mine?.group && !mine.moved) this.choose(this.byId.get(mine.group.dataset.id));
    });
    this.svg.addEventListener("pointerleave", () => { if (!held?.moved) held = null; });
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey || !event.shiftKey) {
        const box = this.svg.getBoundingClientRect();
        this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), event.clientX - box.left, event.clientY - box.top);
      } else {
        this.show({ ...this.view, x: this.view.x - event.deltaX - event.deltaY });
      }
    }, { passive: false });
    this.svg.addEventListener("keydown", (event) => this.walk(event));
  }

  /** Moves the focus along an edge (up, down) or to a neighbour in reading order (left, right). */
  walk(event) {
    const group = event.target.closest(".node");
    if (!group) return;
    const node = this.byId.get(group.dataset.id);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.choose(node);
      return;
    }
    const { in: above, out: below } = this.near.get(node.id);
    const beside = this.graph.nodes.filter((other) => Math.abs(other.y - node.y) < 20).sort((a, b) => a.x - b.x);
    const place = beside.indexOf(node);
    const next = { ArrowUp: above[0], ArrowDown: below[0], ArrowLeft: beside[place - 1]?.id, ArrowRight: beside[place + 1]?.id }[event.key];
    if (event.key.startsWith("Arrow")) event.preventDefault();
    if (next != null) this.focus(next);
  }

  focus(id) {
    this.center(id);
    this.elements.get(id).focus({ preventScroll: true });
  }

  show(view, gliding = false) {
    this.view = view;
    this.world.classList.toggle("gliding", gliding);
    this.world.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.scale})`;
    this.svg.classList.toggle("far", view.scale < 0.4);
  }

  zoom(factor, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    const scale = Math.min(4, Math.max(0.02, this.view.scale * factor));
    const by = scale / this.view.scale;
    this.show({ scale, x: x - (x - this.view.x) * by, y: y - (y - this.view.y) * by });
  }

  /** Shows the whole graph; with `whole` false only its beginning, if the whole would be too small to read. */
  fit(whole = true) {
    const { clientWidth: width, clientHeight: height } = this.svg;
    const all = Math.min(width / this.graph.width, height / this.graph.height, 1.25) * 0.96;
    this.isWhole = all > READABLE;
    const scale = whole || all > READABLE ? all : Math.min(1, Math.max((width / this.graph.width) * 0.96, READABLE));
    const first = this.graph.nodes[0];
    const x = this.graph.width * scale <= width ? (width - this.graph.width * scale) / 2 : width / 2 - (first ? first.x : 0) * scale;
    this.show({ scale, x, y: this.graph.height * scale <= height ? (height - this.graph.height * scale) / 2 : 12 }, true);
    this.isFitted = true;
  }

  /** Fits the drawing when it becomes visible for the first time. */
  appear() {
    if (!this.isFitted) this.fit(false);
    if (!this.svg.querySelector('.node[tabindex="0"]') && this.graph.nodes.length)
      this.elements.get(this.graph.nodes[0].id).setAttribute("tabindex", 0);
  }

  center(id) {
    const node = this.byId.get(id);
    const scale = Math.max(this.view.scale, 0.75);
    this.isFitted = true;
    this.show({ scale, x: this.svg.clientWidth / 2 - node.x * scale, y: this.svg.clientHeight / 2 - node.y * scale }, true);
  }

  /** Highlights these nodes, and marks the node `here` and the edge `meant`. */
  light(ids, here, meant) {
    const on = new Set(ids);
    this.svg.classList.toggle("lit", on.size > 0);
    for (const [id, element] of this.elements) {
      element.classList.toggle("on", on.has(id));
      element.classList.toggle("here", id === here);
    }
    for (const { edge, path } of this.edges)
      path.classList.toggle("on", edge === meant || edge.from === here || edge.to === here);
  }
}

/** A line without corners: an S from one point to the other, or quadratic Bézier curves that meet halfway between corners. */
function curve(route) {
  const [x, y, u, v] = route, middle = (y + v) / 2;
  if (route.length === 4) return `M${x} ${y}C${x} ${middle} ${u} ${middle} ${u} ${v}`;
  let path = `M${x} ${y}`;
  for (let at = 2; at < route.length - 2; at += 2) {
    const [cornerX, cornerY, nextX, nextY] = route.slice(at, at + 4), isLast = at + 4 === route.length;
    const end = isLast ? [nextX, nextY] : [(cornerX + nextX) / 2, (cornerY + nextY) / 2];
    path += `Q${cornerX} ${cornerY} ${end.join(" ")}`;
  }
  return path;
}
