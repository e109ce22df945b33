// What a visitor can take away: a link, the data, a picture, an animation.

import { agreementOf } from "./rules.js";
import { encodeGif } from "./gif.js";
import { drawTileAt } from "./wall.js";

const TILE = 120;
const SPARK = 22;
const GAP = 16;
const MOST = 36;

/** Give the visitor a file. */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function asJson(recording) {
  return new Blob([JSON.stringify(recording, null, 1)], { type: "application/json" });
}

/** The wall after `step` steps, drawn at `scale`, as a canvas. */
function picture(recording, step, theme, scale) {
  const numbers = recording.numbers.slice(0, MOST);
  const columns = Math.min(numbers.length, Math.max(3, Math.ceil(Math.sqrt(numbers.length * 1.6))));
  const rows = Math.ceil(numbers.length / columns);
  const { board } = recording;
  const height = (TILE * (board.rows ?? 1)) / (board.columns ?? 1);
  const canvas = document.createElement("canvas");
  canvas.width = scale * (columns * (TILE + GAP) + GAP);
  canvas.height = scale * (rows * (height + SPARK + GAP) + GAP + 18);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.scale(scale, scale);
  context.fillStyle = theme.paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  const agree = agreementOf(recording.outputsAt(step));
  numbers.forEach((number, i) => {
    context.save();
    context.translate(GAP + (i % columns) * (TILE + GAP), GAP + Math.floor(i / columns) * (height + SPARK + GAP));
    const row = recording.at(number, step);
    drawTileAt(context, recording, number, { row, before: row, fade: 1, agree, theme, playhead: step, width: TILE, height });
    context.restore();
  });
  const { model, settings } = recording.start;
  const found = recording.solutionsAt(step).length;
  context.fillStyle = theme.muted;
  context.font = "11px ui-sans-serif, system-ui, sans-serif";
  const line = `gram · ${model} · step ${step} of ${settings.depth} · ${found} distinct verified · seed ${settings.seed}`;
  context.fillText(line, GAP, canvas.height / scale - 12);
  return canvas;
}

export function asPng(recording, step, theme) {
  return new Promise((resolve) => picture(recording, step, theme, 2).toBlob(resolve, "image/png"));
}

export function asGif(recording, theme) {
  const frames = [];
  for (let step = 1; step <= recording.reached; step++) {
    const canvas = picture(recording, step, theme, 1);
    frames.push(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height));
  }
  return encodeGif(frames, 60);
}
