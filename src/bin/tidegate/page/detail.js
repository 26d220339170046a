// One limiter: figures, the last decision in words, charts, bounds, the list of decisions.

import { badges, element, fill, number, refusedNow, setText, value } from "./list.js";
import { Charts } from "./charts.js";
import { ask } from "./stream.js";

const LOOK = 2; // s between two looks at the decisions

const FIGURES = [
  ["limit", "limit"], ["in flight", "load"], ["queued", "queued"], ["latency, typical", "typical"],
  ["p99", "p99"], ["good", "good"], ["refused", "refused"], ["unloaded latency", "unloaded"], ["knee", "knee"],
];

export class Detail {
  constructor(place) {
    Object.assign(this, { place, name: null, charts: null, writes: false, looked: 0, token: "" });
    this.words = { rejections: {}, decisions: {} };
  }

  // A connection began: the past may have holes, or be another process's.
  greet(hello) {
    this.words = hello.words;
    this.writes = hello.has.writes;
    this.columns = hello.columns;
    if (this.form) this.form.card.hidden = !this.writes;
    if (this.name) this.past();
  }

  choose(name, event) {
    if (name === this.name) return;
    this.name = name || null;
    this.charts = null;
    this.place.replaceChildren();
    if (!name) return;
    if (!(name in event.limiters)) {
      this.place.append(element("p", { class: "empty" }, `There is no limiter "${name}".`));
      return;
    }
    this.build(name);
    this.past();
  }

  build(name) {
    this.badgeNode = element("span", { class: "badges" });
    this.figures = {};
    const figures = element("dl", { class: "figures" }, ...FIGURES.map(([label, key]) => {
      this.figures[key] = element("dd", {}, "–");
      return element("div", {}, element("dt", {}, label), this.figures[key]);
    }));
    this.why = element("p", { class: "why" }, "No decision yet.");
    const charts = element("div", { class: "charts" });
    this.decisions = element("tbody");
    const head = element("tr", {}, ...["when", "limit", "why, and what was compared"].map((text) => element("th", { scope: "col" }, text)));
    const table = element("table", {}, element("thead", {}, head), this.decisions);
    const decisions = element("section", { class: "card" }, element("h3", {}, "Decisions"), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Decisions" }, table));
    this.form = this.bounds(name);
    this.classes = this.shares();
    this.place.append(
      element("div", { class: "title" }, element("h2", {}, name), this.badgeNode), figures, this.why, charts,
      element("div", { class: "stack" }, this.classes.card, this.form.card, decisions),
    );
    this.charts = new Charts(charts);
  }

  bounds(name) {
    const field = (label, attributes) => {
      const input = element("input", attributes);
      return [input, element("label", {}, label, input)];
    };
    const [min, minLabel] = field("min", { type: "number", min: "1", required: "" });
    const [max, maxLabel] = field("max", { type: "number", min: "1", required: "" });
    const [reason, reasonLabel] = field("reason", { type: "text", maxlength: "200", autocomplete: "off" });
    const [token, tokenLabel] = field("token", { type: "password", autocomplete: "off", required: "" });
    token.value = this.token;
    const said = element("output");
    const form = element("form", {}, minLabel, maxLabel, reasonLabel, tokenLabel, element("button", { type: "submit" }, "Set bounds"), said);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      this.token = token.value; // kept as long as the page is open, nowhere else
      setText(said, "…");
      const body = { min: Number(min.value), max: Number(max.value) };
      if (reason.value) body.reason = reason.value;
      const headers = { "authorization": `Bearer ${token.value}`, "content-type": "application/json" };
      const path = `/api/v1/limiters/${encodeURIComponent(name)}/bounds`;
      const answer = await ask(path, { method: "PUT", headers, body: JSON.stringify(body) }).catch((error) => ({ ok: false, body: { error: String(error) } }));
      said.className = answer.ok ? "good" : "bad";
      setText(said, answer.ok ? `${answer.body?.result ?? "applied"}: ${body.min} to ${body.max}` : `not applied: ${answer.body?.error ?? answer.status}`);
    });
    const card = element("section", { class: "card" }, element("h3", {}, "Bounds"), form);
    card.hidden = !this.writes;
    return { card, min, max };
  }

  // Who has what of the limit; hidden when there are no classes.
  shares() {
    const titles = ["class", "in flight", "reserve", "cap", "lent", "borrowed", "queued", "refused"];
    const head = element("tr", {}, ...titles.map((text) => element("th", { scope: "col" }, text)));
    const body = element("tbody");
    const table = element("table", {}, element("thead", {}, head), body);
    const card = element("section", { class: "card" }, element("h3", {}, "Classes"), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Classes" }, table));
    card.hidden = true;
    return { card, body };
  }

  showShares(all) {
    this.classes.card.hidden = !all?.length;
    this.classes.body.replaceChildren(...(all ?? []).map((one) => {
      const refused = Object.values(one.rejected).reduce((sum, n) => sum + n, 0);
      const numbers = [one.in_flight, one.reserve, one.cap, one.lent, one.borrowed, one.queued, refused];
      return element("tr", {}, element("td", {}, one.name), ...numbers.map((n) => element("td", { class: "num" }, n === null ? "–" : number(n))));
    }));
  }

  async past() {
    const { name, charts } = this;
    const { ok, body } = await ask(`/api/v1/limiters/${encodeURIComponent(name)}/history`).catch(() => ({ ok: false }));
    if (ok && charts && charts === this.charts) charts.past(body.columns, body.points);
    this.looked = 0;
  }

  show(event) {
    if (!this.name || !this.charts) return;
    const limiter = event.limiters[this.name];
    if (!limiter) { this.choose(null); return; }
    this.charts.columns = event.columns;
    if (limiter.values) this.charts.push(event.at, limiter.values);
    fill(this.badgeNode, [["plain", `law: ${limiter.law}`], ...badges(limiter, event.columns, this.words)]);
    const get = (column) => value(limiter, event.columns, column);
    const put = (key, text, unit = "") => {
      const wanted = text + unit;
      if (this.figures[key].textContent === wanted) return;
      this.figures[key].replaceChildren(text, element("small", {}, unit));
    };
    put("limit", number(get("limit")), ` of ${number(get("min"))}–${number(get("max"))}`);
    put("load", number(get("in_flight")));
    put("queued", number(get("queued")));
    put("typical", number(get("typical_ms")), " ms");
    put("p99", number(get("p99_ms")), " ms");
    put("good", number(get("success")), " /s");
    put("refused", number(refusedNow(limiter, event.columns, this.words)), " /s");
    if (document.activeElement !== this.form.min && document.activeElement !== this.form.max) this.follow(get("min"), get("max"));
    if (event.at - this.looked >= LOOK && !document.hidden) { this.looked = event.at; this.look(); }
  }

  // The fields show the bounds in force until someone writes into them.
  follow(min, max) {
    const { form } = this;
    if (form.seen === `${min} ${max}`) return;
    form.seen = `${min} ${max}`;
    [form.min.value, form.max.value] = [min, max];
  }

  async look() {
    const name = this.name, path = `/api/v1/limiters/${encodeURIComponent(name)}`;
    const [one, all] = await Promise.all([ask(path), ask(`${path}/decisions`)]).catch(() => [{}, {}]);
    if (name !== this.name || !one.ok || !all.ok) return;
    const { unloaded_latency_ms: unloaded, knee } = one.body.learned;
    this.figures.unloaded.replaceChildren(number(unloaded), element("small", {}, unloaded ? " ms" : ""));
    this.figures.knee.replaceChildren(number(knee));
    this.figures.unloaded.parentNode.hidden = this.figures.knee.parentNode.hidden = unloaded === null && knee === null;
    this.showShares(one.body.classes);
    const [newest] = all.body.decisions;
    if (newest) {
      const state = one.body.fallback ? `On a fallback (${one.body.fallback}): the limiter is full and nothing finishes, so the limit is held. ` : "";
      this.why.replaceChildren(`${state}Limit ${moved(newest)}: ${newest.words}.`, element("small", {}, [newest.compared && `Compared: ${newest.compared}.`, `${sentence(newest.helps)}.`].filter(Boolean).join(" ")));
    }
    this.decisions.replaceChildren(...grouped(all.body.decisions).map(({ record, times }) => element("tr", {},
      element("td", { class: "num" }, ago(record.age_ms)),
      element("td", { class: "num" }, moved(record)),
      element("td", {}, record.words + (times > 1 ? ` (${times} windows)` : ""), element("small", {}, record.compared)),
    )));
  }

  repaint() {
    if (this.charts?.points.length) this.charts.build();
  }
}

// Holds that say the same are shown once.
function grouped(records) {
  const groups = [];
  for (const record of records) {
    const last = groups.at(-1);
    const same = last && record.old === record.new && last.record.old === last.record.new && last.record.reason === record.reason && last.record.new === record.new;
    if (same) last.times += 1; else groups.push({ record, times: 1 });
  }
  return groups;
}

function moved(record) {
  return record.old === record.new ? `stays ${record.new}` : `${record.old} → ${record.new}`;
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function ago(ms) {
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s ago`;
  if (s < 7200) return `${Math.round(s / 60)} min ago`;
  return s < 172800 ? `${Math.round(s / 3600)} h ago` : `${Math.round(s / 86400)} days ago`;
}
