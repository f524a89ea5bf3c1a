"""Command line of the corpus: check parts against their committed values, or write the present ones."""

import argparse
import os
import sys
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

from marginalia.kernels import pin

pin()  # before NumPy is loaded

from tests.golden import sweeps
from tests.golden.corpus import differences, has_mirror, message, why_not_comparable
from tests.golden.parts import PARTS


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default: all of {', '.join(PARTS)}")
    parser.add_argument("--update", action="store_true", help="write the present values")
    parser.add_argument("--group", help="one group of a part only")
    parser.add_argument("--results", type=Path, help="folder of the finished sweep of --group, in place of a new sweep")
    parser.add_argument("--all", action="store_true", help="also the slow groups of the nightly tier")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; the parts are {', '.join(PARTS)}")
    if arguments.results and not (arguments.parts == ["tables"] and arguments.group):
        parser.error("--results needs the part tables and a --group")
    if reason := why_not_comparable():
        print(f"skipped: {reason}")
        return 2 if arguments.update else 0
    changed = 0
    for part in (PARTS[name] for name in arguments.parts or PARTS):
        if part.mirror and not has_mirror():
            print(f"{part.name}: skipped, set MARGINALIA_MIRROR to the folder of the data files")
            continue
        committed = part.committed() if part.path.exists() else {}
        chosen = [arguments.group] if arguments.group else part.groups()
        chosen = [group for group in chosen if arguments.all or group not in part.slow or group == arguments.group]
        if arguments.results:
            present = {arguments.group: sweeps.digests(arguments.results)}
        else:
            present = {group: part.values(group) for group in chosen}
        found = {group: differences(committed.get(group, {}), present[group]) for group in chosen}
        if arguments.update:
            kept = {group: committed[group] for group in part.groups() if group in committed}
            part.write(kept | {group: values for group, values in present.items() if values})
        for group, lines in found.items():
            if lines and not (part.incomplete and not present[group]):
                changed += len(lines)
                print(f"{part.name} {group}: {len(lines)} written" if arguments.update else message(part, group, lines))
        print(f"{part.name}: {sum(map(len, present.values()))} values", flush=True)
    return 1 if changed and not arguments.update else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # DuckDB 2.0 under Ibis 12 aborts in the interpreter's own end
