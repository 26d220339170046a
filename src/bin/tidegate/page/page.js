// The live page: what is chosen, what is shown, and the theme. Names come from a config file, so
// every text goes in as text, never as markup.

import { List } from "./list.js";
import { Detail } from "./detail.js";
import { Gateway } from "./gateway.js";
import { ask, listen } from "./stream.js";

const at = (id) => document.getElementById(id);
const list = new List(at("rows"), at("summary"), at("filter"), at("trouble"));
const detail = new Detail(at("limiter"));
const gateway = new Gateway(at("gateway"), at("config-pill"));
let last = null, hello = null;

function chosen() {
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
}

function choose() {
  if (!last) return;
  const names = Object.keys(last.limiters);
  let name = chosen();
  if (!name && (names.length === 1 || matchMedia("(min-width: 801px)").matches)) name = names[0];
  document.body.dataset.view = name ? "detail" : "list";
  at("back").hidden = names.length < 2;
  list.mark(name);
  detail.choose(name, last, hello);
  document.title = name ? `${name} · tidegate` : "tidegate";
}

async function fresh(greeting) {
  hello = greeting;
  list.words = greeting.words;
  gateway.greet(greeting);
  detail.greet(greeting);
  const { ok, body } = await ask("/api/v1/history").catch(() => ({ ok: false }));
  if (ok) list.past(body);
}

function now(event) {
  const first = !last;
  last = event;
  event.columns = hello.columns;
  list.show(event);
  gateway.show(event);
  if (first || detail.name !== chosen()) choose();
  detail.show(event);
}

function state(word) {
  const pill = at("connection");
  const texts = { connecting: "connecting", live: "live", away: "not connected, trying again" };
  pill.textContent = texts[word];
  pill.className = "pill " + { connecting: "", live: "good", away: "bad" }[word];
  document.body.classList.toggle("stale", word === "away");
}

// Theme: as the system has it, or as chosen here.
const dark = matchMedia("(prefers-color-scheme: dark)");
const THEMES = ["auto", "dark", "light"];
let theme = "auto";
try { theme = THEMES.find((t) => t === localStorage.getItem("tidegate-theme")) ?? "auto"; } catch { /* not allowed */ }

function paint() {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  at("theme").textContent = `Theme: ${theme}`;
  detail.repaint();
  list.repaint();
}

at("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  try { localStorage.setItem("tidegate-theme", theme); } catch { /* not allowed */ }
  paint();
});
dark.addEventListener("change", paint);
addEventListener("hashchange", () => { choose(); if (chosen()) at("detail").focus({ preventScroll: true }); });
at("skip").addEventListener("click", (event) => { event.preventDefault(); at("detail").focus(); });
addEventListener("keydown", (event) => {
  if (event.target.matches("input")) return;
  if (event.key === "/") { event.preventDefault(); at("filter").focus(); }
  if (event.key === "Escape") location.hash = "";
});

paint();
listen({ fresh, now, state });
