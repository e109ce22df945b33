// Draw a graph: vertices where you click, edges between the two that you pick.

import { layoutOf } from "./draw.js";
import { EDGE, NO_EDGE, pairs, textOf, tokensOf } from "./rules.js";

const SVG = "http://www.w3.org/2000/svg";

const element = (name, attributes = {}) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

export class GraphEditor {
  constructor(root, board, onChange) {
    this.board = board;
    this.onChange = onChange;
    this.svg = element("svg", { viewBox: "0 0 100 100", class: "graph", role: "group", "aria-label": "The graph" });
    this.note = document.createElement("p");
    this.note.className = "note";
    this.note.setAttribute("role", "status");
    this.svg.addEventListener("click", (event) => this.onClick(event));
    this.svg.addEventListener("keydown", (event) => this.onKey(event));
    const add = document.createElement("button");
    add.type = "button";
    add.className = "quiet";
    add.textContent = "Add a vertex";
    add.addEventListener("click", () => this.addVertex());
    const clear = document.createElement("button");
    clear.type = "button";
    clear.className = "quiet";
    clear.textContent = "Clear";
    clear.addEventListener("click", () => this.load("no edges"));
    const bar = document.createElement("div");
    bar.className = "chips";
    bar.append(add, clear);
    root.append(this.svg, bar, this.note);
    this.load("no edges");
  }

  load(text, places) {
    const named = text.match(/\d+/g)?.map(Number) ?? [];
    const circle = layoutOf(this.board);
    const count = Math.min(this.board.vertices, Math.max(places?.length ?? 0, ...named.map((v) => v + 1), 0));
    this.points = Array.from({ length: count }, (_, v) => places?.[v] ?? circle[v]);
    const tokens = tokensOf(this.board, text);
    this.edges = new Set(pairs(this.board.vertices).filter((_, i) => tokens[i] === EDGE).map(String));
    this.picked = null;
    this.show();
    this.onChange();
  }

  onClick(event) {
    const vertex = event.target.closest("[data-vertex]");
    if (vertex) return this.pick(Number(vertex.dataset.vertex));
    const box = this.svg.getBoundingClientRect();
    this.addVertex([(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height]);
  }

  onKey(event) {
    const vertex = event.target.closest("[data-vertex]");
    if (event.key.toLowerCase() === "a") this.addVertex();
    else if (vertex && ["Enter", " "].includes(event.key)) this.pick(Number(vertex.dataset.vertex));
    else if (vertex && ["Delete", "Backspace"].includes(event.key)) this.remove(Number(vertex.dataset.vertex));
    else return;
    event.preventDefault();
  }

  addVertex(place) {
    if (this.points.length >= this.board.vertices) {
      this.note.textContent = `This model takes at most ${this.board.vertices} vertices.`;
      return;
    }
    this.points.push(place ?? layoutOf(this.board)[this.points.length]);
    this.show(this.points.length - 1);
    this.onChange();
  }

  pick(vertex) {
    if (this.picked === null) this.picked = vertex;
    else {
      if (this.picked !== vertex) {
        const edge = String([Math.min(this.picked, vertex), Math.max(this.picked, vertex)]);
        if (!this.edges.delete(edge)) this.edges.add(edge);
      }
      this.picked = null;
      this.onChange();
    }
    this.show(vertex);
  }

  remove(vertex) {
    this.points.splice(vertex, 1);
    const moved = (v) => (v > vertex ? v - 1 : v);
    const left = [...this.edges].map((edge) => edge.split(",").map(Number)).filter((edge) => !edge.includes(vertex));
    this.edges = new Set(left.map(([a, b]) => String([moved(a), moved(b)])));
    this.picked = null;
    this.show(Math.min(vertex, this.points.length - 1));
    this.onChange();
  }

  show(focused = null) {
    this.svg.replaceChildren();
    const at = (v) => this.points[v].map((x) => 100 * x);
    for (const edge of this.edges) {
      const [[x1, y1], [x2, y2]] = edge.split(",").map((v) => at(Number(v)));
      this.svg.append(element("line", { x1, y1, x2, y2 }));
    }
    this.points.forEach((_, v) => {
      const [x, y] = at(v);
      const joined = [...this.edges].map((e) => e.split(",").map(Number)).filter((e) => e.includes(v));
      const names = joined.map(([a, b]) => (a === v ? b : a));
      const group = element("g", {
        "data-vertex": v,
        tabindex: 0,
        role: "button",
        "aria-pressed": this.picked === v,
        "aria-label": `Vertex ${v}, joined to ${names.join(", ") || "none"}`,
        class: this.picked === v ? "picked" : "",
      });
      const label = element("text", { x, y });
      label.textContent = v;
      group.append(element("circle", { cx: x, cy: y, r: 6.5 }), label);
      this.svg.append(group);
      if (v === focused) group.focus();
    });
    this.note.textContent =
      this.picked === null
        ? `${this.points.length} of ${this.board.vertices} vertices, ${this.edges.size} edges.`
        : `Vertex ${this.picked} is picked: choose another to join or part them.`;
  }

  text() {
    const tokens = pairs(this.board.vertices).map((pair) => (this.edges.has(String(pair)) ? EDGE : NO_EDGE));
    return textOf(this.board, tokens);
  }

  places() {
    return this.points.map((point) => point.map((x) => Math.round(x * 1000) / 1000));
  }
}
