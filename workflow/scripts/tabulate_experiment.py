"""Write a study's tables and draw its figure."""

from pathlib import Path

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    from marginalia.card import read_rows
    from marginalia.papers.registry import card
    from marginalia.reporting.figures import save_figure
    from marginalia.reporting.verification.results import write_card

    chosen, settings = card(snakemake.wildcards.study), snakemake.params.settings
    made = write_card(chosen, read_rows(snakemake.input), settings, Path(snakemake.output.table).parent)
    save_figure(chosen.figure(made, settings), Path(snakemake.output.figures[0]).with_suffix(""))
