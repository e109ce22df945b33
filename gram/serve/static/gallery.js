// Example boards that a visitor can start with.

import { drawBoard, sharpen } from "./draw.js";
import { EXAMPLES, examplesFor } from "./examples.js";
import { choices } from "./models.js";
import { tokensOf } from "./rules.js";

export const FIRST_BOARD = { kind: "nqueens", rows: 8, columns: 8 };

/** Example boards are there before the models are. */
export function drawGallery(gallery, models, theme, onChoose) {
  const shown = [
    ["8 queens", FIRST_BOARD, EXAMPLES["nqueens-8"][0].puzzle, "nqueens"],
    ["Sudoku", { kind: "sudoku", rows: 9, columns: 9, box_rows: 3, box_columns: 3 }, EXAMPLES["sudoku-9"][0].puzzle, "sudoku"],
    ["Boards from nothing", { kind: "sudoku", rows: 9, columns: 9, box_rows: 3, box_columns: 3 }, "", "generate"],
    ["Digits", { kind: "image", rows: 8, columns: 8 }, "", "image"],
    ["Colouring", { kind: "colouring", vertices: 8, first_colour: 3, names: [] }, EXAMPLES["colouring-8"][2].puzzle, "colouring"],
  ].filter(([, , , key]) => !models.length || models.some((model) => !model.board) || modelFor(models, key));
  gallery.replaceChildren();
  for (const [name, board, puzzle, key] of shown) {
    const button = document.createElement("button");
    button.type = "button";
    const canvas = document.createElement("canvas");
    const title = document.createElement("b");
    title.textContent = name;
    button.append(canvas, title);
    button.disabled = !modelFor(models, key);
    button.addEventListener("click", () => {
      const model = modelFor(models, key);
      onChoose(model, examplesFor(model.board).some((example) => example.puzzle === puzzle) ? puzzle : null);
    });
    gallery.append(button);
    const given = board.kind === "image" ? SEVEN : tokensOf(board, puzzle);
    const now = board.kind === "colouring" ? Array(8).fill(0) : given;
    const size = canvas.clientWidth || 150;
    const places = examplesFor(board).find((example) => example.puzzle === puzzle)?.places;
    drawBoard(sharpen(canvas, size, size), board, { now, given, places, size, theme });
  }
}

const SEVEN = [
  ..."........" + "..####.." + ".....#.." + "....#..." + "..####.." + "...#...." + "...#...." + "........",
].map((c) => (c === "#" ? 2 : 1));

const modelFor = (models, key) =>
  choices(models).find(
    (m) => m.status === "ready" && (key === "generate" ? m.kind === "generate" && m.board.kind === "sudoku" : m.board.kind === key && (m.kind === "solve" || key === "image")),
  );
