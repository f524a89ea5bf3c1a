"use strict";
// Sorting and filtering tables, and opening what stands behind a number or a word. Without this script every table for
// readers is there in full, in its own order, and every other one as a CSV file.
const lively = box => {
  const table = box.querySelector("table");
  const bodies = [...table.tBodies];
  const heads = [...table.tHead.rows[0].cells];
  const dataRows = body => [...body.rows].filter(row => !row.classList.contains("group"));
  const key = (row, column) => {
    // a value that holds at every epsilon stands in one cell across the columns
    const spans = [...row.cells].flatMap(cell => Array(cell.colSpan).fill(cell));
    const cell = spans[column];
    return cell.classList.contains("number") ? Number(cell.dataset.v ?? cell.textContent) : cell.textContent.trim();
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
  if (!table.classList.contains("long")) return;
  // Of a long table one group is shown at first, the first of those with the most rows; words are looked for in all.
  const groups = bodies.map(body => body.querySelector(".group")?.textContent.trim());
  const most = bodies.reduce((best, body, i) => body.rows.length > bodies[best].rows.length ? i : best, 0);
  const choice = make("select", { class: "filter", "aria-label": "Show: " + table.caption.textContent },
    make("option", { value: "" }, `All ${bodies.length}`), ...groups.map((text, i) => make("option", { value: String(i) }, text)));
  const choose = value => {
    choice.value = value;
    bodies.forEach((body, i) => body.classList.toggle("aside", value !== "" && value !== String(i)));
  };
  choice.addEventListener("change", () => { input.value = ""; look(); choose(choice.value); });
  const input = document.createElement("input");
  input.type = "search";
  input.className = "filter";
  input.placeholder = "Filter rows";
  input.setAttribute("aria-label", "Filter rows: " + table.caption.textContent);
  const look = () => {
    let any = false;
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
      any ||= shown > 0;
    }
    scroll.hidden = !any;
    none.textContent = any ? "" : "No row has these words.";
  };
  input.addEventListener("input", () => { choose(""); look(); });
  const scroll = box.querySelector(".scroll"), none = document.createElement("p");
  none.setAttribute("role", "status");
  if (bodies.length > 1) { scroll.before(choice); choose(String(most)); }
  scroll.before(input);
  scroll.after(none);
};
document.querySelectorAll(".table").forEach(lively);

// On a narrow screen tables begin with the level that most readers look for in view.
const toUsual = scroll => {
  const head = [...scroll.querySelectorAll("thead th")].find(one => /^ε = 1$/.test(one.textContent));
  if (head && scroll.clientWidth) scroll.scrollLeft = Math.max(0, head.offsetLeft + head.offsetWidth - scroll.clientWidth);
};
document.querySelectorAll(".scroll").forEach(toUsual);
document.querySelectorAll("details").forEach(fold => fold.addEventListener("toggle", () => fold.querySelectorAll(".scroll").forEach(toUsual)));

// Tables that are kept as CSV files only are built when they are opened.
for (const fold of document.querySelectorAll("details[data-csv]")) {
  fold.addEventListener("toggle", () => {
    if (!fold.open || fold.querySelector("table")) return;
    const [head, ...rows] = csvCells(fold.dataset.csv);
    const title = fold.querySelector("summary").textContent;
    const cell = (text, i) => {
      const number = text !== "" && (Number.isFinite(Number(text)) || text === "inf");
      const shown = text === "inf" ? "∞" : number ? String(Number(Number(text).toPrecision(6))) : text;
      const made = make(i ? "td" : "th", i ? {} : { scope: "row" }, shown);
      if (number) { made.className = "number"; made.dataset.v = text === "inf" ? "Infinity" : text; }
      else if (text.length > 40) made.className = "prose";
      return made;
    };
    const table = make("table", rows.length > 12 ? { class: "long" } : {}, make("caption", {}, title),
      make("thead", {}, make("tr", {}, ...head.map(name => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...rows.map(row => make("tr", {}, ...row.map(cell)))));
    const scroll = make("div", { class: "scroll tall", role: "region", "aria-label": title, tabindex: "0" }, table);
    const box = make("div", { class: "table wide" }, scroll);
    fold.append(box);
    lively(box);
  });
}

// A link to an entry of the glossary opens the entry beside it.
const note = make("div", { id: "note", popover: "", role: "note" });
if ("showPopover" in note) {
  document.body.append(note);
  document.addEventListener("click", event => {
    const link = event.target.closest("a.term");
    const term = link && document.getElementById(link.hash.slice(1));
    if (!term || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const close = make("button", { type: "button" }, "Close");
    close.addEventListener("click", () => { note.hidePopover(); link.focus(); });
    note.replaceChildren(make("b", {}, term.textContent), make("p", {}, term.nextElementSibling.textContent), close);
    note.showPopover();
    const at = link.getBoundingClientRect();
    note.style.left = `${Math.max(8, Math.min(at.left, innerWidth - note.offsetWidth - 8))}px`;
    note.style.top = `${at.bottom + note.offsetHeight + 8 < innerHeight ? at.bottom + 4 : Math.max(8, at.top - note.offsetHeight - 4)}px`;
    close.focus({ preventScroll: true });
  });
}

// Certificates: each is a list of lines, most of which many of them share.
const proofs = document.getElementById("proofs"), dialog = document.getElementById("certificate");
if (proofs && dialog?.showModal) {
  const { lines, sheets } = JSON.parse(proofs.textContent);
  const row = (name, text) => make("div", {}, make("dt", {}, name), make("dd", {}, text));
  const open = place => {
    const [title, parts] = sheets[place];
    dialog.querySelector("h3").textContent = title;
    // each line: a name of 12 characters or none, two blanks, a fact
    dialog.querySelector("dl").replaceChildren(...parts.map(i => row(lines[i].slice(0, 14).trim() || "…", lines[i].slice(14))));
    dialog.showModal();
    dialog.scrollTop = 0;
  };
  const button = (place, inside) => {
    const made = make("button", { type: "button", class: "proof" }, ...inside);
    made.addEventListener("click", () => open(place));
    return made;
  };
  for (const span of document.querySelectorAll("span[data-c]")) span.replaceWith(button(Number(span.dataset.c), span.childNodes));
  const all = document.getElementById("sheets");
  all.addEventListener("toggle", () => {
    if (all.open && !all.querySelector("ul")) all.append(make("ul", {}, ...sheets.map(([title], i) => make("li", {}, button(i, [title])))));
  });
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
}
