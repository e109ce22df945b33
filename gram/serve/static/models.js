// What the served models are called on the page, and which of them can be chosen.

/** The name of a model's puzzle; the model's own beside it where several share one. */
export function labelOf(models, model) {
  const { board, kind, name } = model;
  if (!board) return name;
  const size = board.rows ?? board.vertices;
  const plain = {
    nqueens: `${size} queens`,
    sudoku: kind === "generate" ? "Sudoku boards" : size === 9 ? "Sudoku" : `Sudoku ${size} × ${size}`,
    colouring: `Colouring ${size}`,
    image: "Digits",
  }[board.kind];
  const twins = models.filter((other) => other.random && other.board && labelKey(other) === labelKey(model));
  return twins.length > 1 ? `${plain} (${name})` : (plain ?? name);
}

const labelKey = ({ board, kind }) => JSON.stringify([board, kind]);

const ORDER = ["nqueens", "sudoku", "colouring", "image", "text"];
const rank = ({ board, kind }) => (board ? ORDER.indexOf(board.kind) + (kind === "generate" ? 10 : 0) : 99);

/** Models that can be chosen, puzzles first: those that are random, and others whose board nobody else has. */
export const choices = (models) =>
  models
    .filter((m) => !m.board || m.random || !models.some((o) => o.random && labelKey(o) === labelKey(m)))
    .sort((a, b) => rank(a) - rank(b));

/** A deterministic model of the same puzzle. */
export const rivalOf = (models, model) =>
  models.find((m) => m.board && m.random === false && model.random && labelKey(m) === labelKey(model));
