"""Write the list of data sets in ``docs/datasets.md`` from the catalogue: ``python docs/data_sets.py``."""

from __future__ import annotations

from pathlib import Path

from marginalia.data.catalogue import catalogue
from marginalia.data.files import write_text

PAGE = Path(__file__).with_name("datasets.md")
BEGIN, END = "<!-- catalogue: begin -->", "<!-- catalogue: end -->"


def table() -> str:
    """Return the list of data sets as a Markdown table."""
    lines = [("id", "what", "tasks and targets", "rows", "domain"), ("---",) * 5]
    for name in catalogue.names():
        entry = catalogue.entry(name)
        tasks = "; ".join(
            f"{task}: {spec.target}" + (f" without {', '.join(spec.drop)}" if spec.drop else "")
            for task, spec in entry.tasks.items()
        )
        rows = f"{entry.rows:,}" if entry.rows else ""
        lines.append((f"`{name}`", entry.description, tasks, rows, str(entry.domain_source)))
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def page() -> str:
    """Return the page with the present list."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN, 1)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END, 1)[1]}"


if __name__ == "__main__":
    write_text(PAGE, page())
