"""Write the report page and the provenance of the run."""

import json
from pathlib import Path

from marginalia.sweep.isolation.log import logged

with logged(snakemake.log[0]):
    from marginalia.data.files import write_text
    from marginalia.papers.registry import comparison
    from marginalia.reporting import formats, provenance
    from marginalia.reporting.captions import caption, certificate_caption
    from marginalia.reporting.report import write_report
    from marginalia.sweep.records import read_certificates

    tables = {
        Path(p).stem: formats.read_csv(p)
        for p in [*snakemake.input.tables, *snakemake.input.comparisons, *snakemake.input.studies]
        if p.endswith(".csv")
    }
    captions = {}
    for name, (experiment, table) in snakemake.params.figures.items():
        frame = tables[table][tables[table]["experiment"] == experiment]
        captions[name] = certificate_caption(frame) if table == "certificates" else caption(frame, table)
    captions |= {name: text for name, (_, text) in snakemake.params.studies.items()}
    titles = {name: title for name, (title, _) in snakemake.params.studies.items()}
    for name in snakemake.params.comparisons:
        captions[name] = comparison(name).caption(tables[name])
        titles[name] = comparison(name).title
    facts = provenance.collect(snakemake.params.config, tables["timings"], snakemake.params.benchmarks)
    write_text(snakemake.output.provenance, json.dumps(facts, indent=1) + "\n")
    write_report(
        snakemake.output.page,
        tables=tables,
        figures={Path(p).stem: p for p in snakemake.input.figures},
        narrow_figures={Path(p).stem: p for p in snakemake.input.narrow},
        captions=captions,
        titles=titles,
        notebooks=[Path(p).stem for p in snakemake.input.notebooks],
        provenance=facts,
        certificates=read_certificates(snakemake.input.records),
        datasets_info=provenance.datasets_info(
            snakemake.input.datasets,
            missing=snakemake.params.missing,
            stand_ins=snakemake.params.stand_ins,
        ),
    )
