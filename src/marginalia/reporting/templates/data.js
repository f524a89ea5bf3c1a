"use strict";
// What the page holds: its CSV files, and what was measured in a figure.
const parseCsv = text => {
  const rows = [];
  let row = [], cell = "", quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') { cell += c; i++; }
      else quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === "," || c === "\n") {
      row.push(cell);
      cell = "";
      if (c === "\n") { rows.push(row); row = []; }
    } else cell += c;
  }
  return rows;
};
const csvCells = id => {
  const link = document.getElementById(id);
  const address = link ? link.getAttribute("href") : ",";
  return parseCsv(decodeURIComponent(address.slice(address.indexOf(",") + 1)));
};
const csvRecords = id => {
  const [head, ...rows] = csvCells(id);
  return rows.map(row => Object.fromEntries(head.map((name, i) => [name, row[i]])));
};
const make = (tag, attributes = {}, ...inside) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
};
const short = (value, digits = 4) => Number.isFinite(value) ? String(Number(value.toPrecision(digits))) : "∞";

const page = document.getElementById("curves");
const { figures, certified } = page ? JSON.parse(page.textContent) : { figures: {}, certified: [] };
const PANEL = ["experiment", "protocol", "dataset", "task", "target"];
const ARM = ["method", "variant", "calibration", "relation"];
const keyOf = (row, columns) => columns.map(name => row[name]).join("|");
const numberOf = text => text === "inf" ? Infinity : text === "" ? NaN : Number(text);
const cost = new Map(csvRecords("csv-timings").map(row =>
  [`${keyOf(row, PANEL)}|${keyOf(row, ARM)}|${numberOf(row.epsilon)}`, numberOf(row.seconds)]));
const cache = new Map();
const recordsOf = metric => {
  if (!cache.has(metric)) cache.set(metric, csvRecords(`csv-${metric}`));
  return cache.get(metric);
};
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The points of a panel: for each arm, by level.
const pointsOf = (spec, key) => {
  const names = new Map(spec.arms.map(([arm], i) => [arm, i]));
  const points = [];
  for (const row of recordsOf(spec.metric)) {
    if (keyOf(row, PANEL) !== key) continue;
    const arm = names.get(keyOf(row, ARM));
    if (arm === undefined) continue;
    const epsilon = numberOf(row.epsilon);
    points.push({
      arm, epsilon, mean: numberOf(row.mean), error: numberOf(row.stderr),
      k: Number(row.k), n: Number(row.n_trials), certified: row.certified, calibration: row.calibration,
      spent: numberOf(row.epsilon_spent),
      seconds: cost.get(`${key}|${keyOf(row, ARM)}|${epsilon}`),
    });
  }
  return points;
};

const privacyOf = point => {
  if (point.epsilon === Infinity) return "no privacy";
  if (point.k === 0) return "no run succeeded";
  if (point.certified === "declared") return `claimed ε ${short(point.epsilon)}, not certified`;
  if (point.certified === "no") return `spends ε ${short(point.spent)}: not certified`;
  if (point.certified === "part") return `ε ${short(point.spent)}, protects some rows only`;
  const ideal = point.certified === "ideal" ? ", in ideal arithmetic" : "";
  return `certified ε ${short(point.spent)}${ideal}`;
};
const linesOf = (spec, point) => [
  spec.arms[point.arm][1],
  `${spec.name} ${Number.isNaN(point.mean) ? "–" : short(point.mean)}`
    + (Number.isNaN(point.error) ? "" : ` ± ${short(point.error, 2)} (standard error)`)
    + (point.k < point.n ? `, ${point.k} of ${point.n} trials` : ""),
  point.epsilon === Infinity ? "no privacy" : `ε = ${short(point.epsilon)}: ${privacyOf(point)}`,
  point.seconds === undefined || Number.isNaN(point.seconds) ? "seconds not known" : `${short(point.seconds, 3)} CPU seconds`,
];
