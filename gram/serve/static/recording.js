// Everything that a run has sent so far; can be looked at as it stood after any step.

export class Recording {
  constructor(start, board, request, places) {
    this.start = start;
    this.board = board;
    this.request = request;
    this.places = places;
    this.given = start.given;
    this.depth = start.settings.depth;
    this.rows = []; // by trajectory: what each step brought
    this.reached = 0; // the latest step of any trajectory
    this.estimates = []; // by step
    this.result = null;
  }

  add(event) {
    for (const row of event.rows) (this.rows[row.trajectory] ??= [])[event.step - 1] = row;
    this.reached = Math.max(this.reached, event.step);
    if (event.estimate) this.estimates[event.step] = event.estimate;
    this.latest = event.estimate;
  }

  /** The trajectories that have begun. */
  get numbers() {
    return Object.keys(this.rows).map(Number);
  }

  /** What trajectory `number` had after `step` steps: its end, if that was earlier; undefined before its first. */
  at(number, step) {
    const made = this.rows[number];
    return step < 1 || !made ? undefined : made[Math.min(step, made.length) - 1];
  }

  outputsAt(step) {
    return this.numbers.map((number) => this.at(number, step)?.output).filter(Boolean);
  }

  /** The distinct verified outputs after `step` steps, most frequent first: {output, numbers}. */
  solutionsAt(step) {
    const found = new Map();
    for (const number of this.numbers) {
      const row = this.at(number, step);
      if (!row?.valid) continue;
      const key = row.output.join();
      if (!found.has(key)) found.set(key, { output: row.output, numbers: [] });
      found.get(key).numbers.push(number);
    }
    return [...found.values()].sort((a, b) => b.numbers.length - a.numbers.length || a.numbers[0] - b.numbers[0]);
  }

  /** The estimate of how many solutions there are, by what was known after `step` steps. */
  estimateAt(step) {
    return step >= this.reached ? this.latest : this.estimates[step];
  }

  toJSON() {
    return { request: this.request, given: this.given, steps: this.rows, result: this.result };
  }
}
