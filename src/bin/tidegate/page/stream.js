// The stream of points, and the way back to it after an outage.
// What was missed is not sent again: whoever shows the past asks for it when `fresh` is called.

const QUIET = 5000; // ms without an event: the connection is dead, whatever the browser thinks
const LONGEST_WAIT = 5000;

export async function ask(path, options = {}) {
  const stop = AbortSignal.timeout(10000);
  const answer = await fetch(path, { cache: "no-store", signal: stop, ...options });
  const text = await answer.text();
  let body = null;
  try { body = JSON.parse(text); } catch { body = { error: text.slice(0, 300) }; }
  return { ok: answer.ok, status: answer.status, body };
}

// `fresh(hello)` when a connection begins, `now(event)` for each point, `state(word)` on changes.
export function listen({ fresh, now, state }) {
  let source = null, timer = 0, wait = 500;

  function open() {
    clearTimeout(timer);
    source = new EventSource("/api/v1/stream");
    timer = setTimeout(lost, QUIET);
    source.addEventListener("hello", (event) => {
      wait = 500;
      state("live");
      fresh(JSON.parse(event.data));
    });
    source.addEventListener("now", (event) => {
      clearTimeout(timer);
      timer = setTimeout(lost, QUIET);
      now(JSON.parse(event.data));
    });
    source.onerror = lost;
  }

  function lost() {
    clearTimeout(timer);
    source.close();
    state("away");
    timer = setTimeout(open, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }

  state("connecting");
  open();
  addEventListener("pagehide", () => { clearTimeout(timer); source.close(); });
  addEventListener("pageshow", (event) => { if (event.persisted) open(); });
}
