// The board on which a visitor sets clues: by mouse, touch or keyboard.

import { GraphEditor } from "./graph.js";
import { EMPTY, QUEEN, textOf, tokensOf, wrongCells } from "./rules.js";

const CROWN =
  '<svg viewBox="-.5 -.5 1 1" aria-hidden="true"><path d="M-.34 .3H.34V.2H-.34Z M-.32 .14H.32L.4-.22 .18-.02 0-.32-.18-.02-.4-.22Z"/></svg>';
const HELP = {
  nqueens: "Click a cell to place or remove a queen. By keyboard: arrow keys, then Enter.",
  sudoku: "Click a cell and type a digit. By keyboard: arrow keys, digits, Backspace.",
  colouring:
    "Click empty space to add a vertex, then two vertices to join or part them. By keyboard: Tab to a vertex, Enter picks it, A adds, Delete removes.",
  blank: "There is nothing to set: every sample starts from the same blank input.",
};

/** Put the editor for `board` into `root`; `onChange` is called whenever the visitor changes the puzzle. */
export function makeEditor(root, help, board, kind, onChange) {
  root.replaceChildren();
  const name = kind === "generate" ? "blank" : board.kind;
  help.textContent = HELP[name] ?? "";
  if (name === "colouring") return new GraphEditor(root, board, onChange);
  if (name === "nqueens" || name === "sudoku") return new GridEditor(root, board, onChange);
  root.innerHTML = '<p class="blank">A blank board. Everything you will see is generated.</p>';
  return { text: () => "", load: () => {}, places: () => null };
}

class GridEditor {
  constructor(root, board, onChange) {
    this.board = board;
    this.onChange = onChange;
    this.tokens = Array(board.rows * board.columns).fill(EMPTY);
    this.current = 0;
    this.grid = document.createElement("div");
    this.grid.className = `grid ${board.kind === "nqueens" ? "queens" : "digits"}`;
    this.grid.setAttribute("role", "grid");
    this.grid.setAttribute("aria-label", "The puzzle");
    this.grid.style.gridTemplateColumns = `repeat(${board.columns}, minmax(0, 1fr))`;
    this.grid.style.gridTemplateRows = `repeat(${board.rows}, minmax(0, 1fr))`;
    this.cells = [];
    for (let r = 0; r < board.rows; r++) this.grid.append(this.makeRow(r));
    this.grid.addEventListener("click", (event) => this.onClick(event));
    this.grid.addEventListener("keydown", (event) => this.onKey(event));
    root.append(this.grid);
    if (board.kind === "sudoku") root.append(this.makePad());
    this.show();
  }

  makeRow(r) {
    const row = document.createElement("div");
    row.setAttribute("role", "row");
    for (let c = 0; c < this.board.columns; c++) {
      const cell = document.createElement("div");
      cell.setAttribute("role", "gridcell");
      cell.dataset.cell = this.cells.length;
      cell.classList.toggle("dark", (r + c) % 2 === 1);
      if (this.board.kind === "sudoku") {
        cell.classList.toggle("box-right", (c + 1) % this.board.box_columns === 0);
        cell.classList.toggle("box-bottom", (r + 1) % this.board.box_rows === 0);
      }
      cell.classList.toggle("end-right", c + 1 === this.board.columns);
      cell.classList.toggle("end-bottom", r + 1 === this.board.rows);
      this.cells.push(cell);
      row.append(cell);
    }
    return row;
  }

  makePad() {
    const pad = document.createElement("div");
    pad.className = "pad";
    pad.setAttribute("role", "group");
    pad.setAttribute("aria-label", "Digit for the chosen cell");
    for (let digit = 1; digit <= this.board.rows + 1; digit++) {
      const button = document.createElement("button");
      const erase = digit > this.board.rows;
      button.type = "button";
      button.textContent = erase ? "⌫" : digit;
      if (erase) button.setAttribute("aria-label", "Erase");
      button.addEventListener("click", () => this.put(this.current, erase ? EMPTY : digit + 1));
      pad.append(button);
    }
    return pad;
  }

  onClick(event) {
    const cell = event.target.closest("[data-cell]");
    if (!cell) return;
    this.focus(Number(cell.dataset.cell));
    if (this.board.kind === "nqueens") this.toggle();
  }

  onKey(event) {
    const { columns, rows } = this.board;
    const row = Math.floor(this.current / columns);
    const column = this.current % columns;
    const moves = {
      ArrowLeft: [row, Math.max(0, column - 1)],
      ArrowRight: [row, Math.min(columns - 1, column + 1)],
      ArrowUp: [Math.max(0, row - 1), column],
      ArrowDown: [Math.min(rows - 1, row + 1), column],
      Home: [row, 0],
      End: [row, columns - 1],
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) this.focus(moves[event.key][0] * columns + moves[event.key][1]);
    else if (this.board.kind === "nqueens" && ["Enter", " "].includes(event.key)) this.toggle();
    else if (this.board.kind === "sudoku" && /^[1-9]$/.test(event.key) && Number(event.key) <= rows) {
      this.put(this.current, Number(event.key) + 1);
    } else if (["Backspace", "Delete", "0", "."].includes(event.key)) this.put(this.current, EMPTY);
    else return;
    event.preventDefault();
  }

  toggle() {
    this.put(this.current, this.tokens[this.current] === QUEEN ? EMPTY : QUEEN);
  }

  put(cell, token) {
    this.tokens[cell] = token;
    this.show();
    this.onChange();
  }

  focus(cell) {
    this.current = cell;
    this.show();
    this.cells[cell].focus();
  }

  show() {
    const wrong = wrongCells(this.board, this.tokens, null);
    this.cells.forEach((cell, i) => {
      const token = this.tokens[i];
      const queen = this.board.kind === "nqueens" && token === QUEEN;
      const digit = this.board.kind === "sudoku" && token > EMPTY ? String(token - 1) : "";
      if (this.board.kind === "nqueens") {
        if (queen !== Boolean(cell.firstChild)) cell.innerHTML = queen ? CROWN : "";
      } else cell.textContent = digit;
      const content = queen ? "queen" : digit || "empty";
      const place = `row ${Math.floor(i / this.board.columns) + 1}, column ${(i % this.board.columns) + 1}`;
      cell.setAttribute("aria-label", `${place}: ${content}${wrong.has(i) ? ", breaks a rule" : ""}`);
      cell.classList.toggle("wrong", wrong.has(i));
      cell.tabIndex = i === this.current ? 0 : -1;
    });
  }

  text() {
    return textOf(this.board, this.tokens);
  }

  load(text) {
    this.tokens = tokensOf(this.board, text);
    this.show();
  }

  places() {
    return null;
  }
}
