// The latent paths in two dimensions: the principal plane of the sketches that the server sends, fitted as they come.

import { sharpen } from "./draw.js";

export class Paths {
  constructor(canvas) {
    this.canvas = canvas;
    this.clear();
  }

  clear() {
    this.axes = null;
    this.view = null;
    this.fitted = 0;
  }

  /** Draw the paths up to `playhead` (a float: between two steps they are on their way). */
  draw(recording, playhead, theme, chosen) {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (!width || !height) return;
    const context = sharpen(this.canvas, width, height);
    if (!recording) return;
    const count = recording.rows.reduce((sum, made) => sum + (made?.length ?? 0), 0);
    if (count !== this.fitted) this.fit(recording, count);
    if (!this.axes) return;
    const place = this.placer(recording, width, height);
    for (const number of recording.numbers) {
      const points = recording.rows[number].filter(Boolean).map((row) => place(row.latent));
      this.drawPath(context, points, playhead, recording.at(number, Math.floor(playhead)), theme, number === chosen);
    }
  }

  drawPath(context, points, playhead, row, theme, chosen) {
    const whole = Math.min(Math.floor(playhead), points.length);
    if (whole < 1) return;
    const shown = points.slice(0, whole);
    const rest = playhead - Math.floor(playhead);
    if (whole < points.length && rest > 0) {
      const [a, b] = [points[whole - 1], points[whole]];
      shown.push([a[0] + (b[0] - a[0]) * rest, a[1] + (b[1] - a[1]) * rest]);
    }
    context.strokeStyle = chosen || row?.valid ? theme.accent : theme.muted;
    context.lineWidth = chosen ? 2.4 : 1.3;
    context.lineCap = "round";
    for (let i = 1; i < shown.length; i++) {
      const age = shown.length - 1 - i; // where a path has been fades, where it is going stands out
      context.globalAlpha = chosen ? 1 : 0.07 + 0.5 * Math.exp(-age / 1.6);
      context.beginPath();
      context.moveTo(...shown[i - 1]);
      context.lineTo(...shown[i]);
      context.stroke();
    }
    context.globalAlpha = 1;
    context.beginPath();
    context.arc(...shown.at(-1), chosen ? 6 : 4, 0, 2 * Math.PI);
    context.fillStyle = row?.valid ? theme.accent : theme.panel;
    context.strokeStyle = row?.valid ? theme.accent : theme.muted;
    context.lineWidth = 1.5;
    context.fill();
    context.stroke();
  }

  /** Find the two main directions of all states; keep their signs, so that the picture does not flip. */
  fit(recording, count) {
    const points = recording.rows.flatMap((made) => (made ?? []).filter(Boolean).map((row) => row.latent));
    this.fitted = count;
    if (points.length < 3 || !points[0]) return;
    const size = points[0].length;
    const mean = Array.from({ length: size }, (_, i) => points.reduce((sum, p) => sum + p[i], 0) / points.length);
    const covariance = Array.from({ length: size }, () => new Float64Array(size));
    for (const point of points) {
      for (let i = 0; i < size; i++) {
        for (let j = 0; j < size; j++) covariance[i][j] += (point[i] - mean[i]) * (point[j] - mean[j]);
      }
    }
    const first = mainDirection(covariance, this.axes?.[0]);
    const second = mainDirection(deflated(covariance, first), this.axes?.[1]);
    this.axes = [first, second];
    this.mean = mean;
  }

  placer(recording, width, height) {
    const flat = (latent) => this.axes.map((axis) => axis.reduce((sum, a, i) => sum + a * (latent[i] - this.mean[i]), 0));
    const points = recording.rows.flatMap((made) => (made ?? []).filter(Boolean).map((row) => flat(row.latent)));
    const bounds = [0, 1].map((k) => [Math.min(...points.map((p) => p[k])), Math.max(...points.map((p) => p[k]))]);
    // The view glides to its new bounds instead of jumping there.
    this.view = (this.view ?? bounds).map((old, k) => old.map((value, e) => value + 0.2 * (bounds[k][e] - value)));
    const margin = 16;
    const along = (value, [low, high], length) =>
      margin + ((length - 2 * margin) * (value - low)) / Math.max(high - low, 1e-9);
    return (latent) => {
      const [x, y] = flat(latent);
      return [along(x, this.view[0], width), along(y, this.view[1], height)];
    };
  }
}

function mainDirection(matrix, like) {
  const size = matrix.length;
  let vector = like ? [...like] : Array.from({ length: size }, (_, i) => Math.sin(i + 1));
  for (let round = 0; round < 60; round++) {
    const next = matrix.map((row) => row.reduce((sum, value, j) => sum + value * vector[j], 0));
    const norm = Math.hypot(...next) || 1;
    vector = next.map((value) => value / norm);
  }
  return vector;
}

function deflated(matrix, vector) {
  const image = matrix.map((row) => row.reduce((sum, value, j) => sum + value * vector[j], 0));
  const variance = image.reduce((sum, value, i) => sum + value * vector[i], 0);
  return matrix.map((row, i) => row.map((value, j) => value - variance * vector[i] * vector[j]));
}
