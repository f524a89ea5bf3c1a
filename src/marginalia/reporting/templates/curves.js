"use strict";
// The figures of curves, with what governs all their panels. Without this script, and on paper, the drawing that is
// there stays.
class Curves {
  constructor(element, spec) {
    const hidden = spec.arms.flatMap((arm, i) => arm[7] ? [] : [i]);
    // `unasked`: hidden to keep the figure plain, not by the reader; such methods are ranked all the same
    Object.assign(this, { spec, hidden, off: new Set(hidden), unasked: new Set(hidden), gain: false });
    const still = element.querySelector(".still");
    this.readout = make("p", { class: "unseen", role: "status" });
    this.grid = make("div", { class: "panels" });
    this.panels = spec.panels.map(([key, title]) => new Panel(this, key, title));
    this.anyPrivate = spec.arms.some(arm => arm[6]);
    this.levels = [...new Set(this.panels.flatMap(panel => panel.points.map(p => p.epsilon)).filter(Number.isFinite))].sort((a, b) => a - b);
    this.level = this.levels.includes(1) ? 1 : this.levels[Math.floor(this.levels.length / 2)];
    this.grid.append(...this.panels.map(panel => panel.root));
    const live = make("div", { class: "live" }, this.tools(element.querySelector("h3").firstChild.textContent.trim()), this.legend(), this.grid, this.readout);
    still.before(live);
    element.classList.add("is-live");
    this.draw();
  }

  tools(title) {
    const tools = make("div", { class: "tools" });
    if (this.levels.length > 1) {
      const shown = make("output", {});
      const slider = make("input", { type: "range", min: "0", max: String(this.levels.length - 1), step: "1", value: String(this.levels.indexOf(this.level)) });
      const say = () => {
        this.level = this.levels[Number(slider.value)];
        shown.textContent = `ε = ${short(this.level)}`;
        slider.setAttribute("aria-valuetext", shown.textContent);
      };
      say();
      slider.addEventListener("input", () => { say(); for (const panel of this.panels) { panel.uplot.redraw(false); panel.say(); } });
      tools.append(make("label", {}, "Who wins at ", slider), shown);
    }
    if (this.panels.some(panel => panel.gains)) {
      const choice = make("select", {}, make("option", { value: "" }, `${this.spec.name}`), make("option", { value: "gain" }, "share of the non-private gain"));
      choice.addEventListener("change", () => { this.gain = choice.value === "gain"; this.draw(); });
      tools.append(make("label", {}, "Axis ", choice));
    }
    const sets = [["All methods", []], ["None", this.spec.arms.map((_, i) => i)]];
    if (this.hidden.length) sets.unshift([`The best ${this.spec.arms.length - this.hidden.length}`, this.hidden]);
    for (const [text, off] of sets) {
      const button = make("button", { type: "button", "aria-label": `${text} of ${title}` }, text);
      button.addEventListener("click", () => { this.off = new Set(off); this.unasked = new Set(off === this.hidden ? off : []); this.draw(); });
      tools.append(button);
    }
    return tools;
  }

  legend() {
    this.chips = this.spec.arms.map(([key, name, variable, dash, polygons, open], i) => {
      const sign = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      sign.setAttribute("viewBox", "0 0 30 12");
      sign.setAttribute("aria-hidden", "true");
      const add = (tag, attributes) => {
        const part = document.createElementNS("http://www.w3.org/2000/svg", tag);
        for (const [attribute, value] of Object.entries(attributes)) part.setAttribute(attribute, value);
        part.style.setProperty("stroke", `var(${variable})`);
        part.style.setProperty("fill", tag === "line" ? "none" : open ? "var(--ground)" : `var(${variable})`);
        sign.append(part);
      };
      add("line", { x1: 0, y1: 6, x2: 30, y2: 6, "stroke-width": 1.6, "stroke-dasharray": dash.join(" ") });
      if (this.spec.arms[i][6]) {
        if (polygons.length) add("path", { d: polygons.map(part => "M" + part.map(([x, y]) => `${15 + 8 * x} ${6 + 8 * y}`).join("L") + "z").join("") });
        else add("circle", { cx: 15, cy: 6, r: 4 });
      }
      const chip = make("button", { type: "button", class: "chip", "aria-pressed": "true" }, sign, name);
      chip.addEventListener("click", () => { this.off.has(i) ? this.off.delete(i) : this.off.add(i); this.unasked.delete(i); this.draw(); });
      return chip;
    });
    return make("div", { class: "chips", role: "group", "aria-label": "Methods in this figure" }, ...this.chips);
  }

  draw() {
    this.chips.forEach((chip, i) => chip.setAttribute("aria-pressed", String(!this.off.has(i))));
    for (const panel of this.panels) { panel.chosen = null; panel.tip.hidden = true; panel.draw(); }
  }
}

const drawn = [...document.querySelectorAll("figure[data-curves]")].map(element => new Curves(element, figures[element.dataset.curves]));
const again = () => { for (const figure of drawn) figure.draw(); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; again(); } });
if (location.hash.startsWith("#figure-")) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
