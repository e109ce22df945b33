// What tokens mean on each kind of board: text to tokens and back, and which cells break a rule.
// The server has the last word on whether an output is a solution; this only decides what is marked.

export const EMPTY = 1;
export const QUEEN = 2;
export const NO_EDGE = 1;
export const EDGE = 2;

/** Vertex pairs of a graph in the order of its tokens: the upper triangle, row by row. */
export function pairs(vertices) {
  const found = [];
  for (let a = 0; a < vertices; a++) for (let b = a + 1; b < vertices; b++) found.push([a, b]);
  return found;
}

/** The tokens of a puzzle's text; cells that cannot be read are empty. */
export function tokensOf(board, text) {
  if (board.kind === "colouring") {
    const edges = new Set(text.split(",").map((edge) => edge.trim()));
    return pairs(board.vertices).map(([a, b]) => (edges.has(`${a}-${b}`) || edges.has(`${b}-${a}`) ? EDGE : NO_EDGE));
  }
  const cells = text.replace(/[\s/]/g, "");
  return Array.from({ length: board.rows * board.columns }, (_, i) => {
    const cell = cells[i] ?? ".";
    if (board.kind === "nqueens") return cell.toUpperCase() === "Q" ? QUEEN : EMPTY;
    return /[1-9]/.test(cell) ? Number(cell) + 1 : EMPTY;
  });
}

/** The text of a puzzle, as the API takes it. */
export function textOf(board, tokens) {
  if (board.kind === "colouring") {
    const edges = pairs(board.vertices).filter((_, i) => tokens[i] === EDGE);
    return edges.map(([a, b]) => `${a}-${b}`).join(", ") || "no edges";
  }
  if (board.kind === "sudoku") return tokens.map((token) => (token > EMPTY ? token - 1 : ".")).join("");
  const cells = tokens.map((token) => (token === QUEEN ? "Q" : "."));
  const rows = Array.from({ length: board.rows }, (_, r) => cells.slice(r * board.columns, (r + 1) * board.columns));
  return rows.map((row) => row.join("")).join("/");
}

/** Cells (or vertices) that break a rule, as a set of their numbers. */
export function wrongCells(board, tokens, given) {
  if (board.kind === "nqueens") return wrongQueens(board, tokens, given);
  if (board.kind === "sudoku") return wrongDigits(board, tokens, given);
  if (board.kind === "colouring") return new Set(wrongEdges(board, tokens, given).flat());
  return new Set();
}

function wrongQueens(board, tokens, given) {
  const size = board.columns;
  const queens = tokens.flatMap((token, i) => (token === QUEEN ? [i] : []));
  const wrong = new Set((given ?? []).flatMap((token, i) => (token === QUEEN && tokens[i] !== QUEEN ? [i] : [])));
  for (const a of queens) {
    for (const b of queens) {
      const down = Math.floor(b / size) - Math.floor(a / size);
      const across = (b % size) - (a % size);
      if (a !== b && (!down || !across || Math.abs(down) === Math.abs(across))) wrong.add(a);
    }
  }
  return wrong;
}

function wrongDigits(board, tokens, given) {
  const wrong = new Set();
  const unitsOf = (i) => {
    const row = Math.floor(i / board.columns);
    const column = i % board.columns;
    const box = Math.floor(row / board.box_rows) * board.columns + Math.floor(column / board.box_columns);
    return [`r${row}`, `c${column}`, `b${box}`];
  };
  const seen = new Map();
  tokens.forEach((token, i) => {
    if (token <= EMPTY) return;
    for (const unit of unitsOf(i)) {
      const key = `${unit}:${token}`;
      seen.set(key, [...(seen.get(key) ?? []), i]);
    }
    if (given && given[i] > EMPTY && given[i] !== token) wrong.add(i);
  });
  for (const cells of seen.values()) if (cells.length > 1) cells.forEach((i) => wrong.add(i));
  return wrong;
}

/** Edges [a, b] whose ends have one colour. */
export function wrongEdges(board, tokens, given) {
  return pairs(board.vertices).filter(
    ([a, b], i) => given?.[i] === EDGE && tokens[a] === tokens[b] && tokens[a] >= board.first_colour,
  );
}

/** For each cell, the fraction of the outputs that have each token there: a function (cell, token) -> 0..1. */
export function agreementOf(outputs) {
  const length = outputs[0]?.length ?? 0;
  const counts = Array.from({ length }, () => new Map());
  for (const output of outputs) {
    for (let i = 0; i < length; i++) counts[i].set(output[i], (counts[i].get(output[i]) ?? 0) + 1);
  }
  return (cell, token) => (counts[cell]?.get(token) ?? 0) / Math.max(outputs.length, 1);
}

/** A board in words, for screen readers. */
export function inWords(board, tokens, given) {
  if (board.kind === "nqueens") {
    const places = tokens.flatMap((token, i) =>
      token === QUEEN ? [`row ${Math.floor(i / board.columns) + 1} column ${(i % board.columns) + 1}`] : [],
    );
    return `queens at ${places.join(", ") || "no cell"}`;
  }
  if (board.kind === "sudoku") {
    const digits = tokens.map((token) => (token > EMPTY ? token - 1 : "blank"));
    return Array.from({ length: board.rows }, (_, r) =>
      `row ${r + 1}: ${digits.slice(r * board.columns, (r + 1) * board.columns).join(" ")}`,
    ).join("; ");
  }
  if (board.kind === "colouring") {
    const names = tokens.slice(0, board.vertices).map((t, v) => `${v} ${board.names[t - board.first_colour] ?? "none"}`);
    return `colours of the vertices: ${names.join(", ")}`;
  }
  return "an image";
}
