// The wall: one small board per trajectory, changing step by step, and the list of verified solutions.

import { drawBoard, drawSparkline, sharpen } from "./draw.js";
import { agreementOf, inWords } from "./rules.js";

export const MOST_TILES = 64;
const FEWEST = 5; // verified trajectories that an estimate is shown for
const SPARK = 22; // pixels below the board

export class Wall {
  constructor(root, onChoose) {
    this.root = root;
    this.onChoose = onChoose;
    this.tiles = new Map();
    this.chosen = null;
    root.addEventListener("keydown", (event) => this.onKey(event));
  }

  clear() {
    this.root.replaceChildren();
    this.tiles.clear();
    this.chosen = null;
    this.more = null;
  }

  onKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const all = [...this.tiles.values()];
    const at = all.indexOf(document.activeElement);
    if (!step || at < 0) return;
    all[Math.max(0, Math.min(all.length - 1, at + step))].focus();
    event.preventDefault();
  }

  tile(number) {
    if (this.tiles.has(number)) return this.tiles.get(number);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "tile";
    button.append(document.createElement("canvas"));
    button.tabIndex = this.tiles.size ? -1 : 0;
    button.addEventListener("click", () => this.choose(number));
    button.addEventListener("focus", () => this.tiles.forEach((t) => (t.tabIndex = t === button ? 0 : -1)));
    this.tiles.set(number, button);
    this.root.append(button);
    return button;
  }

  choose(number) {
    this.chosen = this.chosen === number ? null : number;
    this.tiles.forEach((tile, n) => tile.setAttribute("aria-pressed", n === this.chosen));
    this.onChoose(this.chosen);
  }

  /** Show the run as it is at `playhead`, a float: its fraction blends one step into the next. */
  draw(recording, playhead, theme) {
    const step = Math.max(1, Math.floor(playhead));
    const fade = Math.min(1, 2.2 * (playhead - Math.floor(playhead))); // done before the step is over
    const next = fade > 0 ? step + 1 : step;
    const agree = playhead < 1 ? null : agreementOf(recording.outputsAt(next));
    const numbers = recording.numbers;
    this.root.classList.toggle("few", numbers.length <= 12);
    this.root.classList.toggle("many", numbers.length > 28);
    for (const number of numbers.slice(0, MOST_TILES)) {
      const before = playhead < 1 ? undefined : recording.at(number, step);
      const row = playhead < 1 ? undefined : recording.at(number, next);
      const options = { row, before, fade: fade > 0 ? fade : 1, agree, theme, playhead };
      this.drawTile(this.tile(number), recording, number, options);
    }
    this.showMore(numbers.length - MOST_TILES);
  }

  drawTile(button, recording, number, { row, before, fade, agree, theme, playhead }) {
    const { board } = recording;
    const width = button.clientWidth;
    if (!width) return;
    const look = [row?.output.join(""), before?.output.join(""), fade.toFixed(2), Math.floor(playhead), width, theme.paper];
    const others = agree ? recording.numbers.length + recording.reached : 0;
    if (button.look === String([...look, others])) return; // nothing has changed since it was drawn
    button.look = String([...look, others]);
    const canvas = button.firstChild;
    const height = (width * (board.rows ?? 1)) / (board.columns ?? 1);
    canvas.style.height = `${height + SPARK}px`;
    const context = sharpen(canvas, width, height + SPARK);
    drawTileAt(context, recording, number, { row, before, fade, agree, theme, playhead, width, height });
    const words = row
      ? `step ${Math.min(Math.floor(playhead), recording.rows[number].length)}, value ${row.value.toFixed(2)}, ${
          board.kind === "image" ? "an image" : row.valid ? "verified" : `${row.conflicts} broken rules`
        }${row.halted ? ", halted" : ""}`
      : "not begun";
    button.setAttribute("aria-label", `Trajectory ${number + 1}: ${words}`);
  }

  showMore(hidden) {
    if (hidden <= 0) return;
    if (!this.more) {
      this.more = document.createElement("p");
      this.more.className = "more";
      this.root.append(this.more);
    }
    this.more.textContent = `and ${hidden} more`;
  }
}

/** Draw one trajectory, its frame, its badge and its sparkline at the origin. */
export function drawTileAt(context, recording, number, { row, before, fade, agree, theme, playhead, width, height }) {
  const { board, given, places } = recording;
  const start = board.kind === "colouring" ? Array(board.vertices).fill(0) : given;
  const now = row?.output ?? start;
  context.save();
  context.beginPath();
  context.roundRect(0.5, 0.5, width - 1, height - 1, 5);
  context.clip();
  const tinted = row && recording.numbers.length > 1 ? agree : null;
  drawBoard(context, board, { now, before: before?.output ?? start, fade, given, agree: tinted, places, size: width, theme });
  context.restore();
  context.beginPath();
  const inset = row?.halted ? 1.25 : 0.5;
  context.roundRect(inset, inset, width - 2 * inset, height - 2 * inset, 5);
  context.strokeStyle = row?.halted ? theme.accent : theme.line;
  context.lineWidth = row?.halted ? 2.5 : 1;
  context.stroke();
  const values = (recording.rows[number] ?? []).map((made) => made?.value ?? 0);
  const verified = row?.valid && board.kind !== "image"; // an image has no rules to be checked by
  const badge = board.kind === "image" ? 0 : 16;
  const place = { x: 1, y: height + 5, width: width - 4 - badge, height: SPARK - 8, theme, lively: verified };
  if (playhead >= 1) drawSparkline(context, values, playhead, recording.depth, place);
  if (verified) drawBadge(context, theme, width - 7, height + 5 + (SPARK - 8) / 2);
  else if (row && badge) {
    context.fillStyle = theme.muted;
    context.font = "11px ui-sans-serif, system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(row.conflicts, width - 2, height + 6 + (SPARK - 8) / 2);
  }
}

function drawBadge(context, theme, x, y) {
  context.beginPath();
  context.arc(x, y, 5.5, 0, 2 * Math.PI);
  context.fillStyle = theme.accent;
  context.fill();
  context.strokeStyle = theme.panel;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x - 2.4, y);
  context.lineTo(x - 0.6, y + 2);
  context.lineTo(x + 2.6, y - 2);
  context.stroke();
}

/** The distinct verified solutions with how often each was found, and the estimate of how many remain. */
export class Solutions {
  constructor(list, count, note) {
    Object.assign(this, { list, count, note });
    this.shown = "";
  }

  clear(checked = true) {
    this.list.replaceChildren();
    this.count.innerHTML = checked ? "<strong>0</strong> distinct" : "";
    this.note.textContent = checked ? "" : "This task has no rules to check by: what is generated is only looked at.";
    this.shown = "";
  }

  draw(recording, step, theme, themeName) {
    const found = recording.solutionsAt(step);
    const key = `${themeName}|${found.map(({ output, numbers }) => `${output.join("")}x${numbers.length}`).join()}`;
    if (key === this.shown) return;
    this.shown = key;
    this.count.innerHTML = `<strong>${found.length}</strong> distinct`;
    this.note.textContent = inProse(recording, step, found);
    const most = Math.max(1, ...found.map(({ numbers }) => numbers.length));
    this.list.replaceChildren(...found.slice(0, 48).map((solution) => this.item(recording, solution, most, theme)));
  }

  item(recording, { output, numbers }, most, theme) {
    const item = document.createElement("li");
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Solution: ${inWords(recording.board, output)}`);
    const size = 92;
    const context = sharpen(canvas, size, size);
    drawBoard(context, recording.board, { now: output, given: recording.given, places: recording.places, size, theme });
    const bar = document.createElement("span");
    bar.textContent = `× ${numbers.length}`;
    const share = document.createElement("span");
    share.className = "share";
    share.style.width = `${(100 * numbers.length) / most}%`;
    item.append(canvas, share, bar);
    return item;
  }
}

function inProse(recording, step, found) {
  const total = recording.numbers.length;
  const verified = found.reduce((sum, { numbers }) => sum + numbers.length, 0);
  if (!verified) return `None of ${total} ${total === 1 ? "trajectory" : "trajectories"} is verified yet.`;
  const part = `${verified} of ${total} ${total === 1 ? "trajectory" : "trajectories"} ${verified === 1 ? "is" : "are"} verified.`;
  const estimate = recording.estimateAt(step);
  if (!estimate || total < 2) return part;
  if (estimate.samples < FEWEST) return `${part} Too few to tell how many solutions there are.`;
  const remain = Math.max(0, Math.round(estimate.solutions) - estimate.seen);
  const range = estimate.high > estimate.low ? ` (95% interval ${estimate.low} to ${estimate.high})` : "";
  const rest = remain ? `about ${remain} remain unseen` : "none seems to be missing";
  return `${part} By how often each was found there are about ${Math.round(estimate.solutions)} in all${range}: ${rest}.`;
}
