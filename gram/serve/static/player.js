// The playhead: runs through the steps at a pace that the eye can follow, but never ahead of what has arrived.

const SLOWEST = 900; // milliseconds per step
const WHOLE = 7000; // a whole run takes about as long

export class Player {
  constructor(onMove) {
    this.onMove = onMove;
    this.reset(1);
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
  }

  reset(depth) {
    this.depth = depth;
    this.limit = 0;
    this.at = 0;
    this.playing = false;
  }

  /** Let the playhead go as far as `step`; it starts by itself, or, for visitors who want no motion, is there at once. */
  allow(step) {
    const starts = this.limit === 0;
    const follows = this.still.matches && this.at === this.limit;
    this.limit = Math.max(this.limit, step);
    if (follows) this.go(this.limit);
    else if (starts) this.play();
  }

  play() {
    if (this.playing) return;
    if (this.at >= this.depth) this.at = 0;
    this.playing = true;
    let last = performance.now();
    const tick = (now) => {
      if (!this.playing) return;
      const pace = Math.min(SLOWEST, WHOLE / this.depth);
      this.at = Math.min(this.limit, this.at + (now - last) / pace);
      last = now;
      if (this.at >= this.depth) this.playing = false;
      this.onMove(this.shown);
      if (this.playing) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  /** Where the playhead is to be drawn: on whole steps only, for visitors who want no motion. */
  get shown() {
    return this.still.matches ? Math.floor(this.at) : this.at;
  }

  pause() {
    this.playing = false;
    this.onMove(this.shown);
  }

  go(step) {
    this.playing = false;
    this.at = Math.max(0, Math.min(step, this.limit));
    this.onMove(this.shown);
  }

  /** A run that ended early has fewer steps than were asked for. */
  end() {
    this.depth = Math.max(1, this.limit);
  }
}
