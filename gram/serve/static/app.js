// The page: puts the parts together.

import { fetchModels, setToken, stream } from "./api.js";
import { readTheme } from "./draw.js";
import { makeEditor } from "./editor.js";
import { EXAMPLES, examplesFor } from "./examples.js";
import { FIRST_BOARD, drawGallery } from "./gallery.js";
import { asGif, asJson, asPng, download } from "./keep.js";
import { placesFromText, placesToText, readLink, writeLink } from "./link.js";
import { choices, labelOf, rivalOf } from "./models.js";
import { Paths } from "./paths.js";
import { Player } from "./player.js";
import { Recording } from "./recording.js";
import { Rival } from "./rival.js";
import { startTheme } from "./theme.js";
import { Solutions, Wall } from "./wall.js";

const $ = (id) => document.getElementById(id);
const DIALS = ["width", "depth", "temperature"];
const USUAL_WIDTH = 20;

let models = [];
let chosen = null; // the model
let editor = null;
let recording = null;
let running = null; // an AbortController
let usualTemperature = ""; // of the dial, before it is moved
let theme = null;
let themeName = startTheme($("theme"), (name) => {
  theme = readTheme();
  themeName = name;
  showGallery();
  redraw();
});

theme = readTheme();

const paths = new Paths($("paths"));
const wall = new Wall($("wall"), () => redraw());
const solutions = new Solutions($("found"), $("found-count"), $("estimate"));
const rival = new Rival($("rival"));
const player = new Player(() => redraw());

// --- the puzzle -------------------------------------------------------------------------------------------------------

function showModels() {
  $("loading")?.remove();
  const labels = [];
  for (const model of choices(models)) {
    let input = [...$("models").querySelectorAll("input")].find((each) => each.value === model.name);
    if (!input) {
      const label = document.createElement("label");
      input = document.createElement("input");
      Object.assign(input, { type: "radio", name: "model", value: model.name });
      input.addEventListener("change", () => choose(models.find((m) => m.name === input.value)));
      label.append(input, document.createElement("span"));
    }
    labels.push(input.parentNode);
    input.disabled = model.status !== "ready" || model.board.kind === "text";
    input.nextSibling.textContent = model.status === "ready" ? labelOf(models, model) : `${model.name}…`;
  }
  const shown = [...$("models").querySelectorAll("label")];
  if (shown.length === labels.length && shown.every((label, i) => label === labels[i])) return;
  const focused = document.activeElement; // moving an element takes the focus away from it
  $("models").replaceChildren($("models").querySelector("legend"), ...labels);
  if ($("models").contains(focused)) focused.focus();
}

function choose(model, settings = {}) {
  chosen = model;
  const input = [...$("models").querySelectorAll("input")].find((each) => each.value === model.name);
  if (input) input.checked = true;
  editor = makeEditor($("editor"), $("editor-help"), model.board, model.kind, () => say(""));
  const examples = model.kind === "solve" ? examplesFor(model.board) : [];
  $("examples").replaceChildren(...examples.map((example) => exampleChip(example)));
  const known = examples.find((example) => example.puzzle === settings.puzzle) ?? examples[0];
  if (settings.puzzle === undefined) editor.load(known?.puzzle ?? "", known?.places);
  else editor.load(settings.puzzle, placesFromText(settings.places) ?? (known?.puzzle === settings.puzzle ? known.places : null));
  const usual = { ...model.defaults, width: Math.min(model.defaults.width, USUAL_WIDTH) };
  for (const name of DIALS) setDial(name, usual[name]);
  usualTemperature = $("temperature").value;
  for (const name of DIALS) if (settings[name] !== undefined) setDial(name, settings[name]);
  $("temperature-dial").hidden = !model.random;
  $("halt").checked = settings.halt === undefined ? model.defaults.halt : settings.halt === "true";
  $("until").value = ["first", "all"].includes(settings.until) ? settings.until : "";
  if (settings.seed !== undefined) $("seed").value = settings.seed;
  showBeside(settings.beside === "true");
  $("run").disabled = false;
}

/** Offer a deterministic model of the same puzzle, if there is one. */
function showBeside(wanted) {
  const other = rivalOf(models, chosen);
  $("beside-line").hidden = !other;
  $("beside-name").textContent = other ? `Beside it ${other.name}, which has one deterministic path` : "";
  $("beside").checked = Boolean(other && wanted);
}

function exampleChip({ name, puzzle, places }) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.addEventListener("click", () => {
    editor.load(puzzle, places);
    say("");
  });
  return button;
}

function setDial(name, value) {
  const input = $(name);
  if (Number(value) > Number(input.max)) input.max = value;
  input.value = value;
  $(`${name}-out`).textContent = name === "temperature" ? Number(input.value).toFixed(1) : input.value;
}

function showGallery() {
  drawGallery($("gallery"), models, theme, (model, puzzle) => {
    choose(model, puzzle ? { puzzle } : {});
    run();
  });
}

// --- the run ----------------------------------------------------------------------------------------------------------

function requestFor(model) {
  const until = $("until").value;
  const request = {
    model: model.name,
    ...(model.kind === "solve" ? { puzzle: editor.text() } : {}),
    width: Number($("width").value),
    depth: Number($("depth").value),
    seed: Number($("seed").value),
    halt: $("halt").checked,
  };
  // A temperature that is asked for is constant; left alone, the model's own may fall over the depth.
  if (model.random && $("temperature").value !== usualTemperature) request.temperature = Number($("temperature").value);
  if (until) request.until = until;
  return request;
}

async function run() {
  running?.abort();
  const controller = (running = new AbortController());
  const model = chosen;
  const request = requestFor(model);
  const places = model.board.kind === "colouring" ? editor.places() : null;
  const other = $("beside").checked ? rivalOf(models, model) : null;
  writeLink({ ...request, beside: other ? "true" : "", places: placesToText(places) });
  say("");
  clearStage(model);
  busy(true);
  const path = model.kind === "solve" ? "/v1/solve" : "/v1/generate";
  if (other) rival.run(path, { ...request, model: other.name, width: 1, temperature: undefined, until: undefined }, other, places, controller.signal);
  try {
    await stream(path, request, (name, content) => receive(name, content, model, request, places), controller.signal);
  } catch (error) {
    if (error.name !== "AbortError") {
      showProblem(error);
      if (!recording) $("gallery").hidden = false;
    }
  }
  if (running === controller) busy(false);
}

function clearStage(model) {
  recording = null;
  $("gallery").hidden = true;
  wall.clear();
  paths.clear();
  rival.clear();
  solutions.clear(model.board.kind !== "image");
  if ($("stage").getBoundingClientRect().top > 0.7 * innerHeight) $("stage").scrollIntoView({ behavior: "smooth" });
  for (const id of ["legend", "transport", "keep"]) $(id).hidden = true;
  document.body.classList.toggle("unchecked", model.board.kind === "image");
  $("status").textContent = $("spoken").textContent = "Waiting for a place in the batch…";
}

function receive(name, content, model, request, places) {
  if (name === "start") {
    recording = new Recording(content, model.board, request, places && layoutPlaces(places, model.board));
    player.reset(content.settings.depth);
    $("scrub").max = content.settings.depth;
  } else if (name === "step") {
    recording.add(content);
    for (const id of ["legend", "transport"]) $(id).hidden = false;
    player.allow(recording.reached);
    redraw();
  } else if (name === "result") {
    recording.result = content;
    player.end();
    $("scrub").max = player.depth;
    $("keep").hidden = false;
    $("spoken").textContent = summary(player.depth);
    redraw();
  }
}

/** Vertices that the visitor did not draw are there too, without edges: they stand at the bottom. */
function layoutPlaces(places, board) {
  const missing = board.vertices - places.length;
  const rest = Array.from({ length: missing }, (_, i) => [(i + 1) / (missing + 1), 0.96]);
  return [...places, ...rest];
}

let frame = 0;
function redraw() {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(() => {
    if (!recording) return;
    const at = player.shown;
    const step = Math.floor(at);
    wall.draw(recording, at, theme);
    paths.draw(recording, at, theme, wall.chosen);
    if (recording.result?.checked !== false && recording.board.kind !== "image") solutions.draw(recording, step, theme, themeName);
    rival.draw(at, theme);
    $("scrub").value = step;
    $("scrub").setAttribute("aria-valuetext", `step ${step} of ${player.depth}`);
    $("step").textContent = `step ${step} of ${player.depth}`;
    $("play").textContent = player.playing ? "Pause" : "Play";
    $("play").setAttribute("aria-label", player.playing ? "Pause" : "Play");
    $("status").textContent = summary(step);
    $("paths").setAttribute("aria-label", `Latent paths of ${recording.numbers.length} trajectories up to step ${step}`);
  });
}

function summary(step) {
  const count = recording.numbers.length;
  const many = `${count} ${count === 1 ? "trajectory" : "trajectories"}`;
  const result = recording.result;
  if (!result || step < player.depth) return `${many}, step ${step} of ${player.depth}`;
  if (!result.checked) return `${many} have drawn ${count === 1 ? "an image" : `${count} images`} from nothing.`;
  const verified = result.trajectories.filter((t) => t.valid).length;
  const why = result.stopped ? ` (${result.stopped})` : "";
  if (!verified) return `${many}, and none ended in a solution${why}. Try more width or depth.`;
  const kinds = result.solutions.length;
  return `${many}: ${verified} verified, ${kinds} distinct ${kinds === 1 ? "solution" : "solutions"}${why}.`;
}

function busy(now) {
  $("stop").hidden = !now;
  $("run").textContent = now ? "Start again" : "Watch it think";
}

function say(text) {
  $("problem").textContent = text;
}

function showProblem(error) {
  if (error.status === 401) $("token-form").hidden = false;
  const again = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : "";
  say(error.status ? error.message + again : "The service cannot be reached. Is it still running?");
  if (!recording) $("status").textContent = "Nothing is running.";
}

// --- start ------------------------------------------------------------------------------------------------------------

function listen() {
  for (const name of DIALS) $(name).addEventListener("input", () => setDial(name, $(name).value));
  $("settings").addEventListener("submit", (event) => {
    event.preventDefault();
    if (chosen) run();
  });
  $("stop").addEventListener("click", () => running?.abort());
  $("play").addEventListener("click", () => (player.playing ? player.pause() : player.play()));
  $("scrub").addEventListener("input", () => player.go(Number($("scrub").value)));
  $("link").addEventListener("click", async () => {
    await navigator.clipboard?.writeText(location.href).catch(() => {});
    $("link").textContent = "Link copied";
    setTimeout(() => ($("link").textContent = "Copy link"), 2000);
  });
  const name = () => `gram-${recording.start.model}-${recording.start.settings.seed}`;
  $("save-json").addEventListener("click", () => download(asJson(recording), `${name()}.json`));
  $("save-png").addEventListener("click", async () =>
    download(await asPng(recording, Math.max(1, Math.floor(player.at)), theme), `${name()}.png`),
  );
  $("save-gif").addEventListener("click", () => download(asGif(recording, theme), `${name()}.gif`));
  $("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    setToken($("token").value);
    $("token-form").hidden = true;
    say("");
    load();
  });
  window.addEventListener("resize", redraw);
  window.addEventListener("hashchange", () => openLink());
}

function openLink() {
  const link = readLink();
  const model = link && models.find((m) => m.name === link.model && m.status === "ready");
  if (model) {
    choose(model, link);
    run();
  }
  return Boolean(model);
}

/** Ask for the models until all are ready; choose the first, or what the link wants, as soon as it is there. */
async function load() {
  try {
    const found = await fetchModels();
    models = found.models;
    $("width").max = Math.min(64, found.limits.width);
    $("depth").max = Math.min(32, found.limits.depth);
  } catch (error) {
    showProblem(error);
    return;
  }
  showModels();
  if (!recording) showGallery();
  if (!chosen) {
    const wanted = readLink()?.model;
    const first = choices(models).find((m) => m.status === "ready" && m.board.kind !== "text");
    if (wanted && models.some((m) => m.name === wanted)) openLink();
    else if (first) choose(first);
  } else if ($("beside-line").hidden) showBeside(false);
  if (models.some((m) => m.status !== "ready")) setTimeout(load, 400);
}

listen();
showGallery();
makeEditor($("editor"), $("editor-help"), FIRST_BOARD, "solve", () => {}).load(EXAMPLES["nqueens-8"][0].puzzle);
for (const name of DIALS) setDial(name, $(name).value);
load();
