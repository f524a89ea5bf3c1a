# shellcheck shell=bash disable=SC2030,SC2031 # each step counts its own seconds
# Shared by .ci/run and .ci/nightly, which source it: settings, and steps that run one at a time or two at a time.
# A step is a function. Its log and its time go into the summary. A failing step does not stop the ones after it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -z "${MARGINALIA_MIRROR:-}" ]; then
    MARGINALIA_MIRROR="$(cd .. && pwd)/shared/data"
    [ -d "$MARGINALIA_MIRROR" ] || MARGINALIA_MIRROR=""
elif [ ! -d "$MARGINALIA_MIRROR" ]; then
    echo "MARGINALIA_MIRROR=$MARGINALIA_MIRROR is not a folder" >&2
    exit 2
fi
export MARGINALIA_MIRROR
scratch="$(mktemp -d)"
export MARGINALIA_CACHE="$scratch/cache"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
cores=2

running=() # "process step" of each step that has not ended
finished=() # "seconds status step" of each step that has ended
failed=()

end_all() {
    local one
    for one in "${running[@]}"; do kill -- "-${one% *}" 2>/dev/null || true; done
    [ ${#running[@]} = 0 ] || sleep 2
    for one in "${running[@]}"; do kill -KILL -- "-${one% *}" 2>/dev/null || true; done # what ignores the first signal
    rm -rf "$scratch"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# End a step early, where this machine lacks what the step needs.
skip() {
    echo "skipped: $*"
    echo skipped >"$scratch/$step.status"
    exit 0
}

# Run a step in a subshell of its own, where `set -e` holds, and note its seconds. `set -m` gives it a process group, so
# that an interrupted script can end all processes of its steps.
launch() {
    set -m
    (
        set +m
        step="$1" SECONDS=0
        trap 'echo "$SECONDS" >"$scratch/$step.seconds"' EXIT
        "$step"
    ) </dev/null &
    set +m
    running+=("$! $1")
}

# Wait for a step that `launch` started, and report its result.
finish() {
    local process="${1% *}" step="${1#* }" code=0 seconds status=ok
    wait "$process" || code=$?
    [ ! -s "$scratch/$step.log" ] || { printf '\n== %s\n' "$step" && cat "$scratch/$step.log"; }
    seconds="$(cat "$scratch/$step.seconds" 2>/dev/null || echo '?')"
    if [ "$code" != 0 ]; then
        status="FAILED ($code)" failed+=("$step")
    elif [ -e "$scratch/$step.status" ]; then
        status="$(cat "$scratch/$step.status")"
    fi
    printf -- '-- %s: %s, %s s\n' "$step" "$status" "$seconds"
    finished+=("$seconds $status $step")
    rm -f "$scratch/$step".{log,seconds,status}
}

# Run a step and show its output at once. For steps that use both cores themselves.
alone() {
    wait_for_all
    printf '\n== %s\n' "$1"
    launch "$1"
    finish "${running[0]}"
    running=()
}

# Start a step of one core as soon as a core is free. Its output is shown when it ends.
in_parallel() {
    wait_until_fewer_than "$cores"
    launch "$1" >"$scratch/$1.log" 2>&1
}

wait_for_all() { wait_until_fewer_than 1; }

wait_until_fewer_than() {
    local one left
    while [ "${#running[@]}" -ge "$1" ]; do
        left=()
        for one in "${running[@]}"; do
            if kill -0 "${one% *}" 2>/dev/null; then left+=("$one"); else finish "$one"; fi
        done
        running=("${left[@]}")
        [ "${#running[@]}" -lt "$1" ] || sleep 0.5
    done
}

install_locked() { python3 envs/install.py && .venv/bin/python -m pip check; }

# Install from the lock file. Without the environment no other step can run.
install() {
    alone install_locked
    [ ${#failed[@]} = 0 ] || summarise
}

# Run the smoke configuration and check its outputs: `small_sweep SNAKEMAKE FOLDER`. One of its data sets needs files.
small_sweep() {
    local datasets=()
    if [ -z "$MARGINALIA_MIRROR" ]; then
        echo "no data files: breast_cancer, which scikit-learn brings, stands in for compas@dpml"
        datasets=('datasets=["breast_cancer", "diabetes"]')
    fi
    "$1" --cores 2 --quiet --configfile .test/config/config.yaml --config results_dir="$2" "${datasets[@]}"
    .venv/bin/python .ci/check_results.py "$2"
}

# Install Debian packages, or skip the step: `debian_packages PURPOSE PACKAGE...`.
debian_packages() {
    local purpose="$1" && shift
    if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then skip "needs $purpose, or apt and root to install it"; fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# Print seconds and result of every step, and exit with 1 if one failed.
summarise() {
    printf '\n%8s  %s\n' seconds step
    local one
    for one in "${finished[@]}"; do
        printf '%8s  %s\n' "${one%% *}" "${one##* }: $(cut -d' ' -f2- <<<"${one% *}")"
    done
    printf '%8s  in all\n' "$SECONDS"
    [ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}" && exit 1; }
    exit 0
}
