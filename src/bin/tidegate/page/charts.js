// Charts of one limiter over the last five minutes. Every line has a colour, a dash and a label; the
// labels carry the numbers, of the moment pointed at or of the newest.

/* global uPlot */
import { element, number, setText } from "./list.js";

const WINDOW = 300; // s
const GAP = 3; // s without a point: the line is broken

const line = (column, label, color, dash = [], more = {}) => ({ column, label, color, dash, ...more });

const CHARTS = [
  { title: "Limit and load", unit: "", lines: [
    line("in_flight", "in flight", "--orange", [], { fill: true }),
    line("limit", "limit", "--blue", [], { width: 2.5 }),
    line("queued", "queued", "--red", [3, 3], { quiet: true }),
    line("max", "max", "--grey", [10, 4], { bound: true }),
    line("min", "min", "--grey", [2, 4], { bound: true }),
    line("shadow_limit", "shadow limit", "--pink", [8, 3, 2, 3], { quiet: true }),
  ] },
  { title: "Latency", unit: "ms", lines: [
    line("p99_ms", "p99", "--pink", [6, 3]),
    line("p50_ms", "p50", "--green", [2, 3]),
    line("typical_ms", "typical", "--blue", [], { width: 2.5 }),
  ] },
  { title: "Finished a second", unit: "", lines: [
    line("success", "good", "--green", [], { fill: true, width: 2 }),
    line("throttled", "throttled", "--orange", [6, 3], { quiet: true }),
    line("overloaded", "overloaded", "--red", [2, 3], { quiet: true }),
    line("fault", "faults", "--pink", [8, 3, 2, 3], { quiet: true }),
    line("exhausted", "exhausted", "--grey", [10, 4], { quiet: true }),
    line("caller", "caller's mistake", "--sky", [4, 2], { quiet: true }),
    line("cancelled", "caller went away", "--blue", [1, 3], { quiet: true }),
  ] },
  { title: "Refused a second", unit: "", empty: "nothing was refused", lines: [
    line("limit_reached", "limit reached", "--red", [], { quiet: true, width: 2 }),
    line("queue_full", "queue full", "--orange", [6, 3], { quiet: true }),
    line("queue_timeout", "waited too long", "--blue", [2, 3], { quiet: true }),
    line("deadline_unmeetable", "deadline cannot be met", "--pink", [8, 3, 2, 3], { quiet: true }),
    line("client_deadline", "deadline passed", "--green", [10, 4], { quiet: true }),
    line("closed", "closed", "--grey", [4, 2], { quiet: true }),
    line("hold_off", "held off", "--orange", [1, 3], { quiet: true }),
    line("would_reject", "would refuse (shadow)", "--sky", [1, 3], { quiet: true }),
  ] },
];

export class Charts {
  constructor(place) {
    this.place = place;
    this.charts = [];
    this.points = []; // [time, column...], oldest first; null instead of a row breaks the lines
    this.columns = [];
    this.waiting = false;
    new ResizeObserver(() => this.resize()).observe(place);
  }

  // All there is of the past; takes the place of what is there.
  past(columns, points) {
    this.columns = columns;
    this.points = [];
    for (const point of points) this.put(point);
    this.build();
  }

  push(at, values) {
    this.put([at, ...values]);
    if (this.charts.length === 0) this.build(); else this.redraw();
  }

  put(point) {
    const last = this.points.at(-1);
    if (last && point[0] <= last[0]) return;
    if (last && point[0] - last[0] > GAP) this.points.push([last[0] + 1, ...this.columns.map(() => null)]);
    this.points.push(point);
    while (this.points[0][0] < point[0] - WINDOW) this.points.shift();
  }

  data(lines) {
    const times = this.points.map((point) => point[0]);
    return [times, ...lines.map(({ column }) => {
      const i = this.columns.indexOf(column) + 1;
      return this.points.map((point) => (i === 0 ? null : point[i]));
    })];
  }

  build() {
    for (const chart of this.charts) chart.plot.destroy();
    const style = getComputedStyle(document.documentElement);
    this.charts = CHARTS.map((what) => this.one(what, (name) => style.getPropertyValue(name).trim()));
    this.place.replaceChildren(...this.charts.map((chart) => chart.card));
    this.resize();
    this.draw();
  }

  one(what, color) {
    const chart = { what, keys: [], at: null };
    const keys = element("ul", { class: "keys" });
    const hole = element("div", { class: "plot" });
    chart.card = element("figure", { class: "card", role: "group", "aria-label": what.title }, element("h3", {}, what.unit ? `${what.title} (${what.unit})` : what.title), hole, keys);
    chart.note = element("li", { class: "empty" }, what.empty ?? "");
    keys.append(chart.note);
    for (const each of what.lines) {
      const number = element("b");
      const key = element("li", {}, swatch(color(each.color), each), each.label, number);
      keys.append(key);
      chart.keys.push({ key, number });
    }
    const axis = { stroke: color("--soft"), grid: { stroke: color("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const options = {
      width: 300, height: 190, legend: { show: false }, padding: [8, 8, 0, 0],
      cursor: { sync: { key: "tidegate" }, drag: { x: false, y: false }, points: { size: 6 }, y: false },
      scales: { x: { time: true, range: () => this.span() }, y: { range: (_, low, high) => range(chart, this.points, this.columns, high) } },
      axes: [{ ...axis, size: 26, gap: 3, space: 70, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 46, values: (_, ticks) => ticks.map((tick) => short(tick)) }],
      series: [{}, ...what.lines.map((each) => ({
        label: each.label, stroke: color(each.color), width: each.width ?? 1.6, dash: each.dash, spanGaps: false,
        points: { show: false }, fill: each.fill ? color(each.color) + "38" : undefined,
      }))],
      hooks: {
        setCursor: [(plot) => { chart.at = plot.cursor.idx; this.tell(chart); }],
        drawClear: what.title === "Limit and load" ? [(plot) => this.shade(plot, color("--red"))] : [],
      },
    };
    chart.plot = new uPlot(options, this.data(what.lines), hole);
    chart.hole = hole;
    return chart;
  }

  span() {
    const last = this.points.at(-1)?.[0] ?? Date.now() / 1000;
    return [last - WINDOW, last];
  }

  // Stretches on a fallback are hatched.
  shade(plot, color) {
    const i = this.columns.indexOf("fallback") + 1, pen = plot.ctx, { top, height } = plot.bbox;
    if (i === 0) return;
    pen.save();
    pen.strokeStyle = color; pen.lineWidth = devicePixelRatio; pen.globalAlpha = 0.6;
    for (let k = 1; k < this.points.length; k++) {
      if (this.points[k][i] !== 1) continue;
      const from = plot.valToPos(this.points[k - 1][0], "x", true);
      while (this.points[k + 1]?.[i] === 1) k += 1;
      const to = plot.valToPos(this.points[k][0], "x", true), step = 9 * devicePixelRatio;
      pen.save();
      pen.beginPath(); pen.rect(from, top, to - from, height); pen.clip();
      pen.beginPath();
      for (let x = from - height; x < to; x += step) { pen.moveTo(x, top + height); pen.lineTo(x + height, top); }
      pen.stroke();
      pen.restore();
    }
    pen.restore();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    for (const chart of this.charts) {
      const data = this.data(chart.what.lines);
      chart.used = chart.what.lines.map((each, i) => !each.quiet || data[i + 1].some((value) => value));
      chart.plot.batch(() => {
        chart.used.forEach((used, i) => {
          if (chart.plot.series[i + 1].show !== used) chart.plot.setSeries(i + 1, { show: used });
        });
        chart.plot.setData(data);
      });
      this.tell(chart);
    }
  }

  tell(chart) {
    if (!chart.used) return;
    const i = chart.at ?? this.points.length - 1, said = [];
    chart.note.hidden = !chart.what.empty || chart.used.some((used) => used);
    chart.what.lines.forEach((each, k) => {
      const value = chart.plot.data[k + 1][i], { key, number: place } = chart.keys[k];
      key.hidden = !chart.used[k];
      setText(place, number(value ?? null));
      if (chart.used[k]) said.push(`${each.label} ${number(value ?? null)}`);
    });
    chart.card.setAttribute("aria-label", `${chart.what.title}: ${said.join(", ") || chart.what.empty || "no data"}`);
  }

  resize() {
    for (const chart of this.charts) {
      const { clientWidth: width, clientHeight: height } = chart.hole;
      if (width > 0 && (chart.plot.width !== width || chart.plot.height !== height)) chart.plot.setSize({ width, height });
    }
  }
}

// From zero to a little above the data; bounds that are far away do not flatten the rest.
function range(chart, points, columns, high) {
  let top = 0;
  for (const { column, bound } of chart.what.lines) {
    const i = columns.indexOf(column) + 1;
    if (!bound && i) for (const point of points) top = Math.max(top, point[i] ?? 0);
  }
  const bounds = chart.what.lines.filter((each) => each.bound).map(({ column }) => points.at(-1)?.[columns.indexOf(column) + 1] ?? 0);
  for (const bound of bounds) if (bound <= top * 1.6) top = Math.max(top, bound);
  return [0, top > 0 ? top * 1.12 : Math.max(1, high ?? 0)];
}

function swatch(color, { dash, width = 1.6 }) {
  const made = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const svg = made("svg", { width: 26, height: 8, "aria-hidden": "true" });
  svg.append(made("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: color, "stroke-width": width + 0.6, "stroke-dasharray": dash.join(" ") }));
  return svg;
}

function clock(at) {
  const time = new Date(at * 1000), two = (n) => String(n).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}` + (time.getSeconds() ? `:${two(time.getSeconds())}` : "");
}

function short(tick) {
  return tick >= 10000 ? `${Math.round(tick / 1000)}k` : String(Math.round(tick * 100) / 100);
}
