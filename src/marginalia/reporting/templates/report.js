"use strict";
// Sorting, filtering and opening certificates; without this script every table is there in full, in its own order, and
// a certificate is a link further down.
for (const box of document.querySelectorAll(".table")) {
  const table = box.querySelector("table");
  const bodies = [...table.tBodies];
  const heads = [...table.tHead.rows[0].cells];
  const dataRows = body => [...body.rows].filter(row => !row.classList.contains("group"));
  const key = (row, column) => {
    // a value that holds at every epsilon stands in one cell across the columns
    const spans = [...row.cells].flatMap(cell => Array(cell.colSpan).fill(cell));
    const cell = spans[column];
    return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number") return -1;  // cells without a number go last
    if (typeof b === "number") return 1;
    return a.localeCompare(b, "en", { numeric: true });
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      for (const body of bodies) {
        const rows = dataRows(body);
        const numeric = row => typeof key(row, column) === "number";
        rows.sort((a, b) => {
          const order = compare(key(a, column), key(b, column));
          return up || numeric(a) !== numeric(b) ? order : -order;
        });
        body.append(...rows);
      }
    });
  });
  if (!table.classList.contains("long")) continue;
  const input = document.createElement("input");
  input.type = "search";
  input.className = "filter";
  input.placeholder = "Filter rows";
  input.setAttribute("aria-label", "Filter rows: " + table.caption.textContent);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const body of bodies) {
      const heading = body.querySelector(".group");
      const group = heading ? heading.textContent.toLowerCase() : "";
      let shown = 0;
      for (const row of dataRows(body)) {
        const text = group + " " + row.textContent.toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
        shown += !row.hidden;
      }
      body.hidden = shown === 0;
    }
  });
  box.querySelector(".scroll").before(input);
}

const dialog = document.querySelector("#certificate");
if (dialog && dialog.showModal) {
  const row = (name, text) => {
    const [line, term, fact] = ["div", "dt", "dd"].map(tag => document.createElement(tag));
    term.textContent = name;
    fact.textContent = text;
    line.append(term, fact);
    return line;
  };
  document.addEventListener("click", event => {
    const link = event.target.closest("a.proof");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const text = document.getElementById(link.hash.slice(1));
    dialog.querySelector("h3").textContent = text.parentElement.querySelector("summary").textContent;
    // each line: a name of 12 characters or none, two blanks, a fact
    const lines = text.textContent.split("\n").map(line => row(line.slice(0, 14).trim(), line.slice(14)));
    dialog.querySelector("dl").replaceChildren(...lines);
    dialog.showModal();
    dialog.scrollTop = 0;
  });
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
}
