"""Execute the notebook on the results, and keep it with its output, as a notebook and as a page."""

import os
from pathlib import Path

from marginalia.errors import InputError
from marginalia.sweep.log import logged

with logged(snakemake.log[0]):
    try:
        import nbformat
        from nbconvert import HTMLExporter
        from nbconvert.preprocessors import ExecutePreprocessor
    except ModuleNotFoundError as error:
        raise InputError(f"the notebook needs {error.name}: pip install 'marginalia[notebooks]'") from None

    os.environ["MARGINALIA_RESULTS"] = str(Path(snakemake.output.page).parent.resolve())
    notebook = nbformat.read(snakemake.input.notebook, as_version=4)
    ExecutePreprocessor(kernel_name="python3", timeout=600).preprocess(notebook)
    nbformat.write(notebook, snakemake.output.notebook)
    page, _ = HTMLExporter(embed_images=True).from_notebook_node(notebook)
    Path(snakemake.output.page).write_text(page, encoding="utf-8")
