// The address says everything that a run depends on, so that a link reproduces it.

const NAMES = ["model", "puzzle", "width", "depth", "temperature", "seed", "until", "halt", "beside", "places"];

/** Read the settings of a link; null if it has none. */
export function readLink() {
  const found = new URLSearchParams(location.hash.slice(1));
  if (!found.has("model")) return null;
  return Object.fromEntries(NAMES.filter((name) => found.has(name)).map((name) => [name, found.get(name)]));
}

/** Put the settings into the address. */
export function writeLink(settings) {
  const present = Object.entries(settings).filter(([, value]) => value !== null && value !== undefined && value !== "");
  history.replaceState(null, "", `#${new URLSearchParams(present.map(([name, value]) => [name, String(value)]))}`);
}

export const placesToText = (places) => places?.map((point) => point.join(",")).join(";") ?? "";

export function placesFromText(text) {
  if (!text) return null;
  const points = text.split(";").map((point) => point.split(",").map(Number));
  return points.every((point) => point.length === 2 && point.every((x) => x >= 0 && x <= 1)) ? points : null;
}
