// Talks to the service, and to nobody else.

const TOKEN = "gram-token";

/** An answer that says what went wrong. */
export class ApiError extends Error {
  constructor(message, status, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}) };
}

export const setToken = (token) => sessionStorage.setItem(TOKEN, token);

async function failure(response) {
  const body = await response.json().catch(() => ({}));
  return new ApiError(body.error ?? "The service did not answer.", response.status, response.headers.get("retry-after"));
}

/** The served models and the limits. */
export async function fetchModels() {
  const response = await fetch("/v1/models", { headers: headers() });
  if (!response.ok) throw await failure(response);
  return response.json();
}

/** Ask for a run, and call `onEvent(name, content)` for each of its events until it is over or `signal` aborts it. */
export async function stream(path, request, onEvent, signal) {
  const body = JSON.stringify({ ...request, stream: true, latent: true });
  const response = await fetch(path, { method: "POST", headers: headers(), body, signal });
  if (!response.ok) throw await failure(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part)?.[1];
      if (!name) continue; // a comment that keeps the connection open
      const content = JSON.parse(/^data: (.*)$/m.exec(part)[1]);
      if (name === "error") throw new ApiError(content.error, content.status, content.retry_after);
      onEvent(name, content);
    }
  }
}
