"use strict";
// One panel of curves that answers to a pointer, a finger or a key.
class Panel {
  constructor(figure, key, title) {
    this.figure = figure;
    this.points = pointsOf(figure.spec, key);
    this.levels = [...new Set(this.points.map(p => p.epsilon).filter(Number.isFinite))].sort((a, b) => a - b);
    if (!this.levels.length) this.levels = [1];
    this.chosen = null;
    this.plot = make("div", {
      class: "plot", tabindex: "0", role: "application", "aria-roledescription": "interactive chart",
      "aria-label": `${title}, ${figure.spec.name} against ε. Arrow keys: left and right change ε, up and down the method.`,
    });
    this.tip = make("div", { class: "tip", hidden: "" });
    this.who = make("p", { class: "who" });
    this.root = make("div", { class: "panel" }, make("h4", {}, title), this.plot, this.who);
    this.plot.addEventListener("keydown", event => this.onKey(event));
    this.plot.addEventListener("blur", () => this.choose(null));
    this.plot.addEventListener("pointerleave", () => { if (document.activeElement !== this.plot) this.choose(null); });
    const of = arm => this.points.filter(p => figure.spec.arms[p.arm][0].startsWith(arm));
    this.trivial = of("trivial|")[0]?.mean;
    this.ceiling = figure.spec.worst ?? 2 * this.trivial;  // points beyond stand at the edge
    const better = figure.spec.higher ? Math.max : Math.min;
    const free = this.points.filter(p => p.epsilon === Infinity && p.mean === p.mean && !of("trivial|").includes(p));
    this.best = free.length ? better(...free.map(p => p.mean)) : undefined;
  }

  get gains() { return this.trivial !== undefined && this.best !== undefined && this.best !== this.trivial; }
  get asGain() { return this.figure.gain && this.gains; }
  shown(mean) { return this.asGain ? (mean - this.trivial) / (this.best - this.trivial) : mean; }
  visible() { return this.points.filter(p => !this.figure.off.has(p.arm)); }

  limits() {
    const higher = this.asGain || this.figure.spec.higher;
    let all = this.visible().filter(p => !Number.isNaN(p.mean)).map(p => [this.shown(p.mean), p]);
    const trivial = this.trivial === undefined ? undefined : this.shown(this.trivial);
    // with the ends of their bars of error
    const ends = p => p.error > 0 && Number.isFinite(p.epsilon) ? [p.mean - p.error, p.mean + p.error] : [p.mean];
    const beyond = p => !higher && this.ceiling > 0 && p.mean > this.ceiling;
    const curves = all.filter(([, p]) => p.mean !== this.trivial || p.epsilon !== Infinity)
      .flatMap(([y, p]) => beyond(p) ? [y] : ends(p).map(end => this.shown(end)).filter(end => higher || end > 0 || y <= 0));
    if (!curves.length) return { low: 0, high: 1, log: false };
    let low = Math.min(...curves), high = Math.max(...curves);
    let log = false;
    if (higher) {
      if (this.asGain) low = Math.max(low, Math.min(-0.25, high - 0.1));
      else if (trivial !== undefined && low - trivial <= 0.25 * (high - low) && !this.isOff("trivial|")) low = Math.min(low, trivial);
    } else {
      if (this.ceiling > 0 && high > this.ceiling && low < this.ceiling) high = Math.max(...curves.filter(y => y <= this.ceiling));
      if (trivial !== undefined && !this.isOff("trivial|")) high = Math.max(high, trivial);
      log = low > 0 && high > 10 * low;
    }
    if (log) return { low: low / 1.2, high: high * 1.2, log };
    const margin = 0.07 * (high - low) || 0.05 * Math.abs(high) || 0.01;
    return { low: low - margin, high: high + margin, log };
  }
  isOff(prefix) {
    return this.figure.spec.arms.every(([key], i) => !key.startsWith(prefix) || this.figure.off.has(i));
  }

  draw() {
    this.uplot?.destroy();
    const { spec } = this.figure;
    const axis = this.limits();
    const edge = y => Math.min(Math.max(y, axis.low), axis.high);
    const wide = this.levels.at(-1) > 4 * this.levels[0];
    const xs = this.levels;
    const side = wide ? [xs[0] / 1.25, xs.at(-1) * 1.25]
      : xs.length > 1 ? [xs[0] - 0.08 * (xs.at(-1) - xs[0]), xs.at(-1) + 0.08 * (xs.at(-1) - xs[0])] : [xs[0] * 0.5, xs[0] * 1.5];
    const series = [{}], data = [xs];
    spec.arms.forEach(([, , variable, dash, , , isPrivate], arm) => {
      const own = this.points.filter(p => p.arm === arm);
      if (!own.length || this.figure.off.has(arm)) return;
      const at = level => own.find(p => p.epsilon === level || p.epsilon === Infinity);
      // a curve that leaves the axis runs along its edge; a reference line beyond it is left out
      const seen = p => isPrivate || edge(this.shown(p.mean)) === this.shown(p.mean);
      data.push(xs.map(level => { const p = at(level); return p && !Number.isNaN(p.mean) && seen(p) ? edge(this.shown(p.mean)) : null; }));
      series.push({ stroke: colour(variable), width: isPrivate ? 1.6 : 1.2, dash, points: { show: false } });
    });
    const ink = colour("--soft"), grid = colour("--line");
    const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
    const lines = { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 } };
    const width = Math.max(200, this.plot.clientWidth);
    this.uplot = new uPlot({
      width, height: Math.round(Math.min(300, Math.max(210, 0.62 * width))), legend: { show: false }, padding: [8, 8, 0, 0],
      cursor: { drag: { x: false, y: false }, x: false, y: false, points: { show: false } },
      scales: {
        x: { time: false, distr: wide ? 3 : 1, range: () => side },
        y: { distr: axis.log ? 3 : 1, range: () => [axis.low, axis.high] },
      },
      axes: [
        { ...lines, label: "ε", labelSize: 20, labelFont: font, size: 34, splits: () => xs, filter: (u, all) => all, values: (u, all) => all.map(v => short(v)) },
        { ...lines, size: 52, values: (u, all) => all.map(v => v === null ? "" : short(v)), ...(axis.log ? this.logTicks(axis) : {}) },
      ],
      series,
      hooks: { draw: [u => this.mark(u, edge)], setCursor: [u => this.point(u)] },
    }, data, this.plot);
    this.edge = edge;
    this.plot.append(this.tip);
    this.say();
  }

  logTicks({ low, high }) {
    const all = [];
    const steps = high / low > 200 ? [1] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const step of steps) {
        const tick = Number((step * 10 ** power).toPrecision(6));
        if (tick >= low && tick <= high) all.push(tick);
      }
    }
    return { splits: () => all, filter: (u, found) => found };
  }

  // Markers, bars of one standard error, the chosen level and the chosen point.
  mark(u, edge) {
    const { spec, level } = this.figure, { ctx } = u, ratio = devicePixelRatio || 1;
    const x = value => u.valToPos(value, "x", true), y = value => u.valToPos(edge(this.shown(value)), "y", true);
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left - 8 * ratio, u.bbox.top - 8 * ratio, u.bbox.width + 16 * ratio, u.bbox.height + 16 * ratio);
    ctx.clip();
    const here = this.levels.includes(level);
    if (here && this.figure.levels.length > 1) {
      ctx.strokeStyle = colour("--accent");
      ctx.lineWidth = 1.5 * ratio;
      ctx.beginPath();
      ctx.moveTo(x(level), u.bbox.top);
      ctx.lineTo(x(level), u.bbox.top + u.bbox.height);
      ctx.stroke();
    }
    for (const p of this.visible()) {
      if (p.epsilon === Infinity || Number.isNaN(p.mean)) continue;
      const [, , variable, , polygons, open] = spec.arms[p.arm];
      const own = colour(variable), left = x(p.epsilon), top = y(p.mean);
      ctx.strokeStyle = own;
      ctx.lineWidth = 1.2 * ratio;
      if (p.error > 0) {
        ctx.beginPath();
        ctx.moveTo(left, y(p.mean - p.error));
        ctx.lineTo(left, y(p.mean + p.error));
        ctx.stroke();
      }
      const size = (this.chosen === p ? 12 : 7) * ratio;
      ctx.fillStyle = open ? colour("--ground") : own;
      ctx.beginPath();
      if (polygons.length) {
        for (const polygon of polygons) polygon.forEach(([dx, dy], i) => i ? ctx.lineTo(left + dx * size, top + dy * size) : ctx.moveTo(left + dx * size, top + dy * size));
        ctx.closePath();
      } else ctx.arc(left, top, size / 2, 0, 2 * Math.PI);
      ctx.fill();
      ctx.stroke();
      if (!certified.includes(p.certified)) {
        ctx.strokeStyle = colour("--ink");
        ctx.beginPath();
        for (const turn of [1, -1]) {
          ctx.moveTo(left - 5 * ratio, top - turn * 5 * ratio);
          ctx.lineTo(left + 5 * ratio, top + turn * 5 * ratio);
        }
        ctx.stroke();
      }
    }
    ctx.restore();
  }

  // The point nearest to the pointer; a line without privacy is near everywhere.
  point(u) {
    const { left, top } = u.cursor;
    if (left < 0 || top < 0) return;
    let nearest = null, least = 34;
    for (const p of this.visible()) {
      if (Number.isNaN(p.mean) || (p.epsilon === Infinity && this.edge(this.shown(p.mean)) !== this.shown(p.mean))) continue;
      const dx = p.epsilon === Infinity ? 0 : u.valToPos(p.epsilon, "x") - left;
      const dy = u.valToPos(this.edge(this.shown(p.mean)), "y") - top;
      const far = Math.hypot(dx, dy) + (p.epsilon === Infinity ? 8 : 0);
      if (far < least) [nearest, least] = [p, far];
    }
    this.choose(nearest, left);
  }

  choose(point, pointer) {
    if (point === this.chosen) return;
    this.chosen = point;
    this.tip.hidden = point === null;
    this.uplot.redraw(false);
    if (point === null) return;
    const [name, ...rest] = linesOf(this.figure.spec, point);
    this.tip.replaceChildren(make("b", {}, name), ...rest.map(line => make("span", {}, line)));
    const u = this.uplot, box = u.over;
    const left = box.offsetLeft + (point.epsilon === Infinity ? pointer ?? 20 : u.valToPos(point.epsilon, "x"));
    const top = box.offsetTop + u.valToPos(this.edge(this.shown(point.mean)), "y");
    const width = this.tip.offsetWidth, height = this.tip.offsetHeight;
    const beside = left + 12 + width < this.plot.clientWidth ? left + 12 : left - 12 - width;
    this.tip.style.left = `${Math.max(0, Math.min(beside, this.plot.clientWidth - width))}px`;
    this.tip.style.top = `${Math.max(-8, top - height - 8 < -8 ? top + 12 : top - height - 8)}px`;
  }

  onKey(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.key === "Escape") { this.choose(null); return; }
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const drawn = this.visible().filter(p => !Number.isNaN(p.mean));
    if (!drawn.length) return;
    const current = this.chosen;
    const at = current && Number.isFinite(current.epsilon) ? current.epsilon : this.here ?? this.levels[0];
    const next = this.levels[Math.min(Math.max(this.levels.indexOf(at) + (current ? move[0] : 0), 0), this.levels.length - 1)];
    this.here = next;
    const column = drawn.filter(p => p.epsilon === next || p.epsilon === Infinity).sort((a, b) => a.mean - b.mean);
    let place = current ? column.findIndex(p => p.arm === current.arm) : column.length - 1;
    if (place < 0) place = 0;
    this.choose(column[Math.min(Math.max(place + (current ? move[1] : 0), 0), column.length - 1)]);
    this.figure.readout.textContent = linesOf(this.figure.spec, this.chosen).join(". ");
  }

  // Who wins here, by the rule of the tables: certified, a value in every trial.
  winner(level) {
    const sign = this.figure.spec.higher ? -1 : 1;
    const ranked = this.points.filter(p => !this.figure.off.has(p.arm) || this.figure.unasked.has(p.arm));
    return ranked.filter(p => p.epsilon === level && p.k === p.n && p.k > 0
      && certified.includes(p.certified) && p.calibration !== "none").sort((a, b) => sign * (a.mean - b.mean))[0];
  }

  say() {
    const level = this.figure.level;
    if (!this.levels.includes(level)) { this.who.textContent = this.figure.anyPrivate ? `Nothing was run at ε = ${short(level)}.` : ""; return; }
    if (this.figure.spec.higher === null) { this.who.textContent = "More is not better: below what they say intervals are too short, above it too wide."; return; }
    const first = this.winner(level);
    const name = p => this.figure.spec.arms[p.arm][1];
    if (!first) { this.who.textContent = `ε = ${short(level)}: no certified method with a value in every trial.`; return; }
    const value = this.asGain ? `${short(100 * this.shown(first.mean), 3)} % of the gain` : short(first.mean);
    this.who.replaceChildren(`ε = ${short(level)}: `, make("b", {}, name(first)), ` (${value}).`);
  }
}
