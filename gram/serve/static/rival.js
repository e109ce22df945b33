// A deterministic model beside the random one, on the same puzzle: one path against many.

import { stream } from "./api.js";
import { sharpen } from "./draw.js";
import { Recording } from "./recording.js";
import { drawTileAt } from "./wall.js";

const SPARK = 22;

export class Rival {
  constructor(root) {
    this.root = root;
    this.recording = null;
  }

  clear() {
    this.recording = null;
    this.root.hidden = true;
    this.root.replaceChildren();
  }

  async run(path, request, model, places, signal) {
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.text = document.createElement("div");
    const title = document.createElement("h3");
    title.textContent = `${model.name}: one deterministic path`;
    this.line = document.createElement("p");
    this.line.className = "note";
    this.text.append(title, this.line);
    this.root.replaceChildren(this.canvas, this.text);
    this.root.hidden = false;
    try {
      await stream(
        path,
        request,
        (name, content) => {
          if (name === "start") this.recording = new Recording(content, model.board, request, places);
          if (name === "step") this.recording.add(content);
        },
        signal,
      );
    } catch (error) {
      if (error.name !== "AbortError") this.line.textContent = error.message;
    }
  }

  draw(playhead, theme) {
    const run = this.recording;
    if (!run?.rows[0]) return;
    const width = this.canvas.clientWidth;
    if (!width) return;
    const height = (width * (run.board.rows ?? 1)) / (run.board.columns ?? 1);
    this.canvas.style.height = `${height + SPARK}px`;
    const row = run.at(0, Math.floor(playhead));
    const context = sharpen(this.canvas, width, height + SPARK);
    drawTileAt(context, run, 0, { row, before: row, fade: 1, agree: null, theme, playhead, width, height });
    const verdict = row?.valid ? "its one answer is verified" : `${row?.conflicts ?? 0} broken rules, and no other way to try`;
    this.line.textContent = row ? `However often it is asked, it thinks the same: ${verdict}.` : "";
    this.canvas.setAttribute("aria-label", `${run.start.model}: ${verdict}`);
  }
}
