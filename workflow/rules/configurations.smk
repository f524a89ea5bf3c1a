# What comes before any rule: one thread and the same kernels for every job, and which configurations run together.
import gc
import os
import sys

gc.set_threshold(100_000)  # most of what Snakemake makes lives until it ends

# One BLAS thread a job: results must not depend on the number of cores, and small problems run faster.
for variable in (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
):
    os.environ[variable] = "1"

from marginalia import kernels
from marginalia.errors import InputError
from marginalia.sweep.config import read_content, run_together

os.environ.update(kernels.variables())  # Snakemake itself may have loaded NumPy

# jsonschema, which Snakemake loads, would import it and compile 38 grammars of URLs that nothing here checks. It does
# without where the import fails.
sys.modules.setdefault("rfc3987_syntax", None)

try:
    for file in workflow.configfiles:
        read_content(file)  # Snakemake keeps the last of two equal keys without a word
    CONFIGURATIONS = run_together(config)
except InputError as error:
    print(f"marginalia: {error}", file=sys.stderr, flush=True)
    os._exit(2)  # one line and no traceback: nothing has been started yet
