"""Write the tables of an experiment, and draw its figure if it has one."""

from pathlib import Path

from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    from marginalia.data.catalogue.catalogue import own_titles
    from marginalia.experiment import read_rows
    from marginalia.papers.registry import experiment
    from marginalia.reporting import experiments, formats
    from marginalia.reporting.figures import save_figure
    from marginalia.reporting.style import presented
    from marginalia.sweep.records import read_records

    chosen, settings = experiment(snakemake.wildcards.study, snakemake.params.file), snakemake.params.settings
    others = {}
    for name, (file, others_settings) in snakemake.params.needs.items():
        parts = [path for path in snakemake.input.needs if Path(path).parent.name == name]
        others[name] = experiments.make_tables(experiment(name, file), read_rows(parts), others_settings)
    rows = read_rows(snakemake.input.rows) if chosen.rows else read_records(snakemake.input.rows)
    tables = experiments.make_tables(chosen, rows, settings, others)
    folder = Path(snakemake.output.table).parent
    experiments.write_tables(tables, folder)
    if chosen.figure:
        if not chosen.rows:  # as a reader of the results has it
            tables = {name: formats.read_csv(folder / f"{name}.csv") for name in tables}
        with own_titles(snakemake.params.titles), presented(snakemake.params.presentations):
            save_figure(experiments.draw(chosen, tables, settings), Path(snakemake.output.figures[0]).with_suffix(""))
