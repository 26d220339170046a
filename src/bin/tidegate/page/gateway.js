// What concerns the whole gateway: the config in force, alerts, and the history of changes.

import { element, setText } from "./list.js";
import { ago } from "./detail.js";
import { ask } from "./stream.js";

const LOOK = 5; // s

export class Gateway {
  constructor(place, pill) {
    Object.assign(this, { place, pill, has: {}, looked: 0 });
    this.facts = element("dl", { class: "facts" });
    this.alerts = card("Alerts");
    this.audit = card("Changes");
    this.ceilings = card("Ceilings");
    place.className = "stack";
    place.append(this.alerts.card, this.ceilings.card, element("section", { class: "card" }, element("h3", {}, "Config"), this.facts), this.audit.card);
  }

  greet(hello) {
    this.has = hello.has;
    this.version = hello.version;
    this.looked = 0;
    this.known = undefined;
    this.alerts.card.hidden = !hello.has.alerts;
  }

  show(event) {
    const { config } = event;
    this.head = config.audit?.head ?? null;
    this.audit.card.hidden = !(this.has.audit && config.audit);
    this.pill.hidden = false;
    setText(this.pill, config.ok ? `config version ${config.version}` : "config refused");
    this.pill.className = `pill ${config.ok ? "good" : "bad"}`;
    const facts = [
      ["file", config.path ?? "none: command line only"],
      ["hash", config.hash],
      ["version", `${config.version}, applied ${ago(config.age_s * 1000)}`],
      ["refused so far", String(config.refused)],
    ];
    if (config.pending) facts.push(["waits", `${config.pending.why ?? ""} ${config.pending.hash ?? ""}`.trim()]);
    if (config.baking_for_s) facts.push(["watched", `${Math.ceil(config.baking_for_s)} s more, then it is kept`]);
    if (config.audit?.error) facts.push(["audit log", config.audit.error]);
    if (config.polling) facts.push(["polled", config.polling]);
    if (config.error) facts.push(["last error", config.error]);
    facts.push(["tidegate", this.version]);
    const key = JSON.stringify(facts);
    if (key !== this.key) {
      this.key = key;
      this.facts.replaceChildren(...facts.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, name === "last error" ? element("pre", { class: "bad" }, text) : text)]));
    }
    if (event.at - this.looked >= LOOK && !document.hidden) { this.looked = event.at; this.look(); }
  }

  async look() {
    const { ok, body } = await ask("/api/v1/ceilings").catch(() => ({ ok: false }));
    if (ok) {
      this.ceilings.card.hidden = body.ceilings.length === 0;
      this.ceilings.list(body.ceilings, "None.", ceiling);
    }
    if (this.has.alerts) {
      const { ok, body } = await ask("/api/v1/alerts").catch(() => ({ ok: false }));
      if (ok) this.alerts.list(body.open ?? [], "Nothing goes on.", (alert) => [alert.text]);
    }
    if (this.has.audit && this.head !== this.known) {
      const head = this.head;
      const { ok, body } = await ask("/api/v1/audit").catch(() => ({ ok: false }));
      if (ok) { this.known = head; this.audit.list(body.records, "No change yet.", record); }
    }
  }
}

// One record of the audit log: when, what became of it, who, and what changed.
function record({ time, result, actor, changes, reason, note }) {
  const side = (text) => text ?? "(none)";
  const what = (changes ?? []).slice(0, 8).map(({ key, old, new: now }) => `${key}: ${side(old)} → ${side(now)}`);
  if (changes?.length > 8) what.push(`and ${changes.length - 8} more`);
  if (reason) what.push(`reason: ${reason}`);
  if (note) what.push(note);
  return [String(time).slice(0, 19).replace("T", " "), result, actor, what.join("\n")];
}

// One ceiling: the rate in force, where it comes from, and what is lost.
function ceiling({ name, rate, min, max, source, loss, members, waiting }) {
  const state = loss ? `fallback: ${loss}` : source === "shared" ? `shared by ${members}` : source;
  return [name, `${rate.toPrecision(3)}/s of ${min} to ${max}`, state, waiting ? `${waiting} wait` : ""];
}

function card(title) {
  const rows = element("tbody");
  const made = element("section", { class: "card" }, element("h3", {}, title), element("div", { class: "scroll" }, element("table", {}, rows)));
  made.hidden = true;
  const list = (items, none, cells) => {
    const lines = items.length ? items.map(cells) : [[none]];
    const key = JSON.stringify(lines);
    if (made.dataset.key === key) return;
    made.dataset.key = key;
    rows.replaceChildren(...lines.map((line) => element("tr", {}, ...line.map((text) => element("td", {}, text)))));
  };
  return { card: made, list };
}
