// The list: one row a limiter, with its load over the last minute. Rows that are not in view are
// not drawn.

const LAST = 60;

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function value(limiter, columns, column) {
  return limiter.values ? limiter.values[columns.indexOf(column)] : null;
}

export function refusedNow(limiter, columns, words) {
  return Object.keys(words.rejections).reduce((sum, reason) => sum + (value(limiter, columns, reason) ?? 0), 0);
}

// What deserves a word beside the name: [kind, text].
export function badges(limiter, columns, words) {
  const get = (column) => value(limiter, columns, column);
  const all = [];
  if (limiter.fallback) all.push(["bad", `fallback: ${limiter.fallback}`]);
  const refused = refusedNow(limiter, columns, words);
  if (refused > 0) all.push(["warn", `refusing ${number(refused)}/s`]);
  if (get("limit") === get("max") && get("min") !== get("max")) all.push(["plain", "limit at max"]);
  if (get("limit") === get("min") && get("min") !== get("max")) all.push(["warn", "limit at min"]);
  if (limiter.reason === "hold_futile") all.push(["warn", "shedding does not help"]);
  if (limiter.mode !== "enforce") all.push(["plain", `mode: ${limiter.mode}`]);
  return all;
}

export function fill(place, all) {
  const key = JSON.stringify(all);
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  place.replaceChildren(...all.map(([kind, text]) => element("span", { class: `badge ${kind}` }, text)));
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 100 || Number.isInteger(value)) return String(Math.round(value));
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export class List {
  constructor(rows, summary, filter, trouble) {
    Object.assign(this, { rows, summary, filter, trouble, byName: new Map(), visible: new Set() });
    this.words = { rejections: {} };
    this.watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const row = entry.target.row;
        if (entry.isIntersecting) { this.visible.add(row); this.draw(row); } else this.visible.delete(row);
      }
    });
    filter.addEventListener("input", () => this.sift());
    trouble.addEventListener("change", () => this.sift());
    rows.addEventListener("keydown", (event) => this.walk(event));
  }

  // Points from before this page was opened.
  past(body) {
    for (const [name, points] of Object.entries(body.limiters)) {
      const row = this.byName.get(name) ?? this.add(name);
      row.points = points.slice(-LAST);
      if (this.visible.has(row)) this.draw(row);
    }
  }

  show(event) {
    const names = Object.keys(event.limiters);
    for (const [name, row] of this.byName) {
      if (!(name in event.limiters)) { row.item.remove(); this.watcher.unobserve(row.item); this.visible.delete(row); this.byName.delete(name); }
    }
    let refusing = 0, fallback = 0;
    for (const name of names) {
      const limiter = event.limiters[name];
      const row = this.byName.get(name) ?? this.add(name);
      const get = (column) => value(limiter, event.columns, column);
      row.points.push([get("limit"), get("in_flight")]);
      if (row.points.length > LAST) row.points.shift();
      row.marks = badges(limiter, event.columns, this.words);
      row.troubled = row.marks.some(([kind]) => kind === "warn" || kind === "bad");
      if (limiter.fallback) fallback += 1;
      if (refusedNow(limiter, event.columns, this.words) > 0) refusing += 1;
      row.load = `${number(get("in_flight"))} of ${number(get("limit"))} in flight` + (get("queued") ? `, ${number(get("queued"))} wait` : "");
    }
    const parts = [`${names.length} ${names.length === 1 ? "limiter" : "limiters"}`];
    if (refusing) parts.push(`${refusing} refusing`);
    if (fallback) parts.push(`${fallback} on a fallback`);
    setText(this.summary, parts.join(" · "));
    this.sift();
    for (const row of this.visible) this.draw(row);
  }

  add(name) {
    const link = element("a", { class: "row", href: `#${encodeURIComponent(name)}` });
    const row = { name, points: [], marks: [], load: "", link, item: element("li") };
    row.canvas = element("canvas", { "aria-hidden": "true" });
    row.loadNode = element("span", { class: "load" });
    row.badgeNode = element("span", { class: "badges" });
    link.append(element("span", { class: "name", title: name }, name), row.canvas, row.loadNode, row.badgeNode);
    row.item.append(link);
    row.item.row = row;
    this.byName.set(name, row);
    const after = [...this.byName.keys()].sort().indexOf(name);
    this.rows.insertBefore(row.item, this.rows.children[after] ?? null);
    this.watcher.observe(row.item);
    return row;
  }

  sift() {
    const wanted = this.filter.value.toLowerCase();
    for (const row of this.byName.values()) {
      row.item.hidden = !row.name.toLowerCase().includes(wanted) || (this.trouble.checked && !row.troubled);
    }
  }

  mark(name) {
    for (const row of this.byName.values()) {
      if (row.name === name) row.link.setAttribute("aria-current", "true");
      else row.link.removeAttribute("aria-current");
    }
  }

  walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const links = [...this.rows.querySelectorAll("li:not([hidden]) a")];
    const next = links[links.indexOf(document.activeElement) + step];
    if (next) { event.preventDefault(); next.focus(); }
  }

  repaint() {
    for (const row of this.visible) this.draw(row);
  }

  draw(row) {
    setText(row.loadNode, row.load);
    fill(row.badgeNode, row.marks);
    const { canvas, points } = row, scale = devicePixelRatio || 1, [width, height] = [88, 40];
    if (canvas.width !== width * scale) { canvas.width = width * scale; canvas.height = height * scale; }
    const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const top = Math.max(1, ...points.map(([limit, load]) => Math.max(limit, load))) * 1.1;
    const x = (i) => width - ((points.length - 1 - i) * width) / (LAST - 1), y = (v) => height - 1 - (v / top) * (height - 3);
    const path = (which) => { pen.beginPath(); points.forEach((point, i) => pen.lineTo(x(i), y(point[which]))); };
    if (points.length === 0) return;
    path(1);
    pen.lineTo(width, height); pen.lineTo(x(0), height);
    pen.globalAlpha = 0.45; pen.fillStyle = style.getPropertyValue("--orange"); pen.fill();
    pen.globalAlpha = 1; pen.lineWidth = 1.6; pen.strokeStyle = style.getPropertyValue("--blue");
    path(0); pen.stroke();
  }
}
