// Draws one board into a canvas. The same code draws the wall, the solutions, and what is downloaded.

import { EDGE, EMPTY, QUEEN, pairs, wrongCells, wrongEdges } from "./rules.js";

const QUEEN_SHAPE = "M-.34 .3 L.34 .3 L.34 .2 L-.34 .2 Z M-.32 .14 L.32 .14 L.4 -.22 L.18 -.02 L0 -.32 L-.18 -.02 L-.4 -.22 Z";
const queenPath = typeof Path2D === "undefined" ? null : new Path2D(QUEEN_SHAPE);

/** The colours of the page, read from its style sheet, so that canvases follow the theme. */
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["paper", "panel", "ink", "muted", "line", "square", "accent", "broken"];
  const theme = Object.fromEntries(names.map((name) => [name, value(name)]));
  theme.hues = ["hue-1", "hue-2", "hue-3", "hue-4", "hue-5", "hue-6"].map(value);
  return theme;
}

/** Where the vertices of a graph are, in the unit square: as drawn by the visitor, or on a circle. */
export function layoutOf(board, places) {
  return Array.from({ length: board.vertices }, (_, v) => {
    if (places?.[v]) return places[v];
    const angle = -Math.PI / 2 + (2 * Math.PI * v) / board.vertices;
    return [0.5 + 0.4 * Math.cos(angle), 0.5 + 0.4 * Math.sin(angle)];
  });
}

/**
 * Draw `now` (tokens) of `size` pixels at the origin. `before` and `fade` (0..1) blend from the previous step;
 * `agree(cell, token)` tints cells by how many trajectories agree; `given` is the puzzle.
 */
export function drawBoard(context, board, { now, before, fade = 1, given, agree, places, size, theme, plain }) {
  const options = { now, before: fade < 1 ? before : null, fade, given, agree, places, size, theme, plain };
  ({ nqueens: drawQueens, sudoku: drawDigits, colouring: drawGraph, image: drawImage })[board.kind]?.(
    context,
    board,
    options,
  );
}

function tint(context, theme, strength, x, y, width, height) {
  if (strength <= 0) return;
  context.globalAlpha = strength;
  context.fillStyle = theme.accent;
  context.fillRect(x, y, width, height);
  context.globalAlpha = 1;
}

/** Mark a cell whose rule is broken by a corner: a shape, so that it does not depend on colour alone. */
function markBroken(context, theme, x, y, cell) {
  context.fillStyle = theme.broken;
  context.beginPath();
  context.moveTo(x + cell, y);
  context.lineTo(x + cell, y + cell * 0.32);
  context.lineTo(x + cell * 0.68, y);
  context.fill();
}

function drawQueens(context, board, { now, before, fade, given, agree, size, theme }) {
  const cell = size / board.columns;
  const wrong = wrongCells(board, now, given);
  for (let i = 0; i < now.length; i++) {
    const x = (i % board.columns) * cell;
    const y = Math.floor(i / board.columns) * cell;
    const dark = (Math.floor(i / board.columns) + (i % board.columns)) % 2;
    context.fillStyle = dark ? theme.square : theme.panel;
    context.fillRect(x, y, cell, cell);
    if (agree) tint(context, theme, 0.62 * agree(i, QUEEN), x, y, cell, cell);
    const here = now[i] === QUEEN;
    const was = before ? before[i] === QUEEN : here;
    const lost = given?.[i] === QUEEN && !here;
    if (here || was || lost) {
      const alpha = here && was ? 1 : here ? fade : lost ? 1 : 1 - fade;
      if (wrong.has(i) && (here || lost)) markBroken(context, theme, x, y, cell);
      context.save();
      context.translate(x + cell / 2, y + cell / 2);
      context.scale(1.12 * cell, 1.12 * cell);
      context.globalAlpha = alpha;
      context.fillStyle = context.strokeStyle = wrong.has(i) ? theme.broken : theme.ink;
      context.lineWidth = 0.06;
      if (lost) context.stroke(queenPath);
      else context.fill(queenPath);
      context.restore();
    }
  }
}

function drawDigits(context, board, { now, before, fade, given, agree, size, theme, plain }) {
  const cell = size / board.columns;
  const wrong = wrongCells(board, now, given);
  context.fillStyle = theme.panel;
  context.fillRect(0, 0, size, size);
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let i = 0; i < now.length; i++) {
    const x = (i % board.columns) * cell;
    const y = Math.floor(i / board.columns) * cell;
    const fixed = given?.[i] > EMPTY;
    if (agree && !fixed && now[i] > EMPTY) tint(context, theme, 0.45 * Math.max(0, agree(i, now[i]) - 0.15), x, y, cell, cell);
    const bad = wrong.has(i) && !plain;
    if (bad) markBroken(context, theme, x, y, cell);
    const put = (token, alpha) => {
      if (token <= EMPTY || alpha <= 0) return;
      context.globalAlpha = alpha;
      context.font = `${fixed ? 700 : 400} ${cell * 0.66}px ui-sans-serif, system-ui, sans-serif`;
      context.fillStyle = theme.ink;
      context.fillText(String(token - 1), x + cell / 2, y + cell * 0.54);
      context.globalAlpha = 1;
    };
    if (before && before[i] !== now[i]) {
      put(before[i], 1 - fade);
      put(now[i], fade);
    } else put(now[i], 1);
  }
  drawLines(context, board, cell, size, theme);
}

function drawLines(context, board, cell, size, theme) {
  for (let line = 1; line < board.columns; line++) {
    for (const [thick, across] of [
      [line % board.box_rows === 0, true],
      [line % board.box_columns === 0, false],
    ]) {
      context.fillStyle = thick ? theme.muted : theme.line;
      const width = thick ? Math.max(1, size / 130) : Math.max(0.5, size / 300);
      if (across) context.fillRect(0, line * cell - width / 2, size, width);
      else context.fillRect(line * cell - width / 2, 0, width, size);
    }
  }
}

function drawGraph(context, board, { now, given, agree, places, size, theme }) {
  const layout = layoutOf(board, places).map(([x, y]) => [x * size, y * size]);
  const broken = new Set(wrongEdges(board, now, given).map(String));
  context.fillStyle = theme.panel;
  context.fillRect(0, 0, size, size);
  pairs(board.vertices).forEach(([a, b], i) => {
    if (given?.[i] !== EDGE) return;
    const bad = broken.has(String([a, b]));
    context.strokeStyle = bad ? theme.broken : theme.muted;
    context.setLineDash(bad ? [size / 30, size / 40] : []);
    context.lineWidth = (bad ? 2.2 : 1) * Math.max(1, size / 150);
    context.beginPath();
    context.moveTo(...layout[a]);
    context.lineTo(...layout[b]);
    context.stroke();
  });
  context.setLineDash([]);
  const radius = size * 0.075;
  layout.forEach(([x, y], v) => {
    const colour = now[v] - board.first_colour;
    const known = colour >= 0 && colour < board.names.length;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fillStyle = theme.panel;
    context.fill();
    if (known) {
      context.globalAlpha = agree ? 0.35 + 0.65 * agree(v, now[v]) : 1;
      context.fillStyle = theme.hues[colour];
      context.fill();
      context.globalAlpha = 1;
    }
    context.strokeStyle = known ? theme.hues[colour] : theme.muted;
    context.lineWidth = Math.max(1, size / 150);
    context.stroke();
  });
}

function drawImage(context, board, { now, before, fade, agree, size, theme }) {
  const cell = size / board.columns;
  context.fillStyle = theme.panel;
  context.fillRect(0, 0, size, (size * board.rows) / board.columns);
  for (let i = 0; i < now.length; i++) {
    const x = (i % board.columns) * cell;
    const y = Math.floor(i / board.columns) * cell;
    if (agree) tint(context, theme, 0.3 * agree(i, QUEEN), x, y, cell, cell);
    const here = now[i] === QUEEN ? 1 : 0;
    const was = before ? (before[i] === QUEEN ? 1 : 0) : here;
    const alpha = was + (here - was) * fade;
    if (alpha <= 0) continue;
    context.globalAlpha = alpha;
    context.fillStyle = theme.ink;
    context.beginPath();
    context.roundRect(x + cell * 0.06, y + cell * 0.06, cell * 0.88, cell * 0.88, cell * 0.18);
    context.fill();
    context.globalAlpha = 1;
  }
}

/** A value over the steps, as a line; `reached` (a float) is how far it has come. */
export function drawSparkline(context, values, reached, steps, { x, y, width, height, theme, lively }) {
  context.strokeStyle = theme.line;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, y + height - 0.5);
  context.lineTo(x + width, y + height - 0.5);
  context.stroke();
  const shown = values.slice(0, Math.max(1, Math.ceil(reached)));
  if (!shown.length) return;
  const place = (value, i) => [x + (width * (steps > 1 ? i / (steps - 1) : 1)), y + 1 + (height - 3) * (1 - value)];
  context.strokeStyle = lively ? theme.accent : theme.muted;
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  context.beginPath();
  shown.forEach((value, i) => (i ? context.lineTo(...place(value, i)) : context.moveTo(...place(value, i))));
  context.stroke();
  context.fillStyle = context.strokeStyle;
  context.beginPath();
  context.arc(...place(shown.at(-1), shown.length - 1), 2, 0, 2 * Math.PI);
  context.fill();
}

/** A canvas of `width` x `height` CSS pixels that is sharp on this screen, with its context scaled to them. */
export function sharpen(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
