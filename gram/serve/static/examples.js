// Puzzles that are there before any model is loaded, by kind and size of the board.

const queens = (size, ...cells) => {
  const rows = Array.from({ length: size }, () => Array(size).fill("."));
  for (const [row, column] of cells) rows[row][column] = "Q";
  return rows.map((row) => row.join("")).join("/");
};

const square = (low) => [[low, low], [1 - low, low], [1 - low, 1 - low], [low, 1 - low]];
const around = (count) =>
  Array.from({ length: count }, (_, i) => (2 * Math.PI * i) / count - Math.PI / 2).map((angle) => [
    0.5 + 0.4 * Math.cos(angle),
    0.5 + 0.4 * Math.sin(angle),
  ]);

export const EXAMPLES = {
  "nqueens-8": [
    { name: "One queen", puzzle: queens(8, [0, 3]) },
    { name: "A corner", puzzle: queens(8, [0, 0]) },
    { name: "Two queens", puzzle: queens(8, [1, 3], [4, 6]) },
    { name: "Three queens", puzzle: queens(8, [0, 2], [3, 6], [5, 3]) },
  ],
  "nqueens-10": [
    { name: "One queen", puzzle: queens(10, [2, 4]) },
    { name: "Two queens", puzzle: queens(10, [0, 2], [5, 8]) },
  ],
  "sudoku-9": [
    { name: "Gentle", puzzle: "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79" },
    { name: "Middling", puzzle: "..3.2.6..9..3.5..1..18.64....81.29..7.......8..67.82....26.95..8..2.3..9..5.1.3.." },
    { name: "Hard", puzzle: "4.....8.5.3..........7......2.....6.....8.4......1.......6.3.7.5..2.....1.4......" },
  ],
  "sudoku-4": [{ name: "Small", puzzle: "1...34..2143.3.1" }],
  colouring: [
    { name: "A ring", puzzle: "0-1, 1-2, 2-3, 0-3" },
    { name: "A house", puzzle: "0-1, 1-2, 2-3, 0-3, 0-2" },
  ],
  "colouring-8": [
    { name: "A ring", puzzle: "0-1, 1-2, 2-3, 3-4, 4-5, 5-6, 6-7, 0-7" },
    {
      name: "A wheel",
      puzzle: "0-1, 1-2, 2-3, 3-4, 4-5, 5-6, 0-6, 0-7, 1-7, 2-7, 3-7, 4-7, 5-7, 6-7",
      places: [...around(7), [0.5, 0.5]],
    },
    {
      name: "A cube",
      puzzle: "0-1, 1-2, 2-3, 0-3, 4-5, 5-6, 6-7, 4-7, 0-4, 1-5, 2-6, 3-7",
      places: [...square(0.12), ...square(0.34)],
    },
  ],
};

/** The examples for a board; a colouring of another size gets the smallest graphs. */
export function examplesFor(board) {
  if (!board) return [];
  const size = board.rows ?? board.vertices;
  return EXAMPLES[`${board.kind}-${size}`] ?? EXAMPLES[board.kind] ?? [];
}
