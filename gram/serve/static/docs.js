// The API's reference, made from openapi.json: what each path takes and returns, with a form to try it.

import { startTheme } from "./theme.js";

const BODIES = {
  "/v1/solve": { model: "nqueens-8", puzzle: "...Q..../......../......../......../......../......../......../........", width: 8 },
  "/v1/generate": { model: "sudoku-generation", width: 2 },
};

const make = (name, text = "", attributes = {}) => {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

function typeOf(schema, api) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map((each) => typeOf(each, api)).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.type === "array") return `list of ${typeOf(schema.items ?? {}, api)}`;
  return schema.type ?? "anything";
}

function fields(schema, api) {
  const whole = schema.$ref ? api.components.schemas[schema.$ref.split("/").at(-1)] : schema;
  const table = make("table");
  const head = make("tr");
  head.append(make("th", "field", { scope: "col" }), make("th", "type", { scope: "col" }), make("th", "meaning", { scope: "col" }));
  table.append(head);
  for (const [name, field] of Object.entries(whole.properties ?? {})) {
    const row = make("tr");
    const title = make("th", "", { scope: "row" });
    title.append(make("code", name));
    const required = (whole.required ?? []).includes(name) ? "required. " : "";
    row.append(title, make("td", typeOf(field, api)), make("td", required + (field.description ?? "")));
    table.append(row);
  }
  const box = make("div", "", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Fields" });
  box.append(table);
  return box;
}

function section(path, method, operation, api) {
  const made = make("section");
  const title = make("h2");
  title.append(make("span", method.toUpperCase(), { class: "method" }), make("code", path));
  made.append(title, make("p", operation.description ?? operation.summary ?? ""));
  const body = operation.requestBody?.content["application/json"]?.schema;
  if (body) made.append(make("h3", "Takes"), fields(body, api));
  const answer = operation.responses["200"]?.content?.["application/json"]?.schema;
  if (answer?.$ref) made.append(make("h3", "Returns"), fields(answer, api));
  const codes = Object.entries(operation.responses).filter(([status]) => status !== "200");
  if (codes.length) made.append(make("h3", "Errors"));
  for (const [status, { description }] of codes) made.append(make("p", `${status}: ${description}`, { class: "note" }));
  made.append(trial(path, method));
  return made;
}

function trial(path, method) {
  const form = make("form");
  const id = `body-${path}`;
  const input = make("textarea", JSON.stringify(BODIES[path] ?? {}, null, 2), { id, spellcheck: "false" });
  const output = make("pre", "", { role: "status", tabindex: 0, "aria-label": `Answer of ${path}` });
  output.hidden = true;
  if (method === "post") form.append(make("h3", "Try it"), make("label", "Body", { for: id, class: "hidden" }), input);
  form.append(make("p"), make("button", "Send", { class: "quiet" }), output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const token = sessionStorage.getItem("gram-token");
    const headers = { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) };
    const response = await fetch(path, { method: method.toUpperCase(), headers, body: method === "post" ? input.value : undefined });
    output.hidden = false;
    output.textContent = `${response.status}\n${await response.text()}`;
  });
  return form;
}

startTheme(document.getElementById("theme"), () => {});
const api = await (await fetch("/openapi.json")).json();
const reference = document.getElementById("reference");
reference.replaceChildren(make("p", api.info.description));
for (const [path, operations] of Object.entries(api.paths)) {
  for (const [method, operation] of Object.entries(operations)) reference.append(section(path, method, operation, api));
}
