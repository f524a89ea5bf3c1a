"use strict";
// Sort, filter and save tables. Without this script every table is there, in its own order.
const textOf = cell => cell.textContent.replace(/\s+/g, " ").trim();
const make = (tag, properties) => Object.assign(document.createElement(tag), properties);

// Numbers before texts before nothing; a number may have more behind it: "0.16 ± 0.02".
const valueOf = cell => {
  const text = textOf(cell), number = parseFloat(text.replaceAll(",", "").replace("∞", "Infinity"));
  return Number.isNaN(number) ? [text ? 1 : 2, text.toLowerCase()] : [0, number];
};
const compare = ([kind, a], [other, b], sign) => kind - other || sign * ((a > b) - (a < b));

// A text that a spreadsheet would execute gets a quote in front.
const csvField = text => {
  const safe = /^[=+\-@]/.test(text) && !/^-[\d.][\d.e ±+()/%-]*$/.test(text) ? "'" + text : text;
  return /[",]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

for (const box of document.querySelectorAll(".table")) {
  const table = box.querySelector("table"), heads = [...table.tHead.rows[0].cells], bodies = [...table.tBodies];
  const headingOf = body => body.querySelector(".group");
  const rowsOf = body => [...body.rows].filter(row => row !== headingOf(body));
  const title = textOf(box.querySelector(".title span"));
  const tools = make("div", { className: "tools" });
  box.querySelector(".head").append(tools);

  heads.forEach((head, column) => {
    const button = make("button", { type: "button", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const sign = head.ariaSort === "ascending" ? -1 : 1;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      for (const body of bodies) {
        const keyed = rowsOf(body).map(row => [valueOf(row.cells[column]), row]);
        body.append(...keyed.sort(([a], [b]) => compare(a, b, sign)).map(([, row]) => row));
      }
    });
  });

  if (table.rows.length > 12) {
    const input = make("input", { type: "search", placeholder: "Filter rows", ariaLabel: `Filter rows: ${title}` });
    const found = make("span", { role: "status" });
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const body of bodies) {
        const heading = headingOf(body) ? textOf(headingOf(body)).toLowerCase() : "";
        for (const row of rowsOf(body)) row.hidden = !words.every(word => `${heading} ${textOf(row).toLowerCase()}`.includes(word));
        body.hidden = rowsOf(body).every(row => row.hidden);
      }
      const n = bodies.flatMap(rowsOf).filter(row => !row.hidden).length;
      found.textContent = words.length ? `${n} ${n === 1 ? "row" : "rows"}` : "";
    });
    tools.append(input, found);
  }

  const save = make("button", { type: "button", textContent: "Save as CSV", title: "The rows shown here, in their order", ariaLabel: `Save as CSV: ${title}` });
  save.addEventListener("click", () => {
    const grouped = bodies.some(headingOf);
    const lines = [[...(grouped ? ["group"] : []), ...heads.map(textOf)]];
    for (const body of bodies)
      for (const row of rowsOf(body).filter(one => !one.hidden))
        lines.push([...(grouped ? [textOf(headingOf(body))] : []), ...[...row.cells].map(textOf)]);
    const text = lines.map(line => line.map(csvField).join(",")).join("\n") + "\n";
    const link = make("a", { download: `${box.id.replace("table-", "")}.csv`, href: URL.createObjectURL(new Blob([text], { type: "text/csv" })) });
    link.click();
    URL.revokeObjectURL(link.href);
  });
  tools.append(save);
}
