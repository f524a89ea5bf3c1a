#!/usr/bin/env bash
# Run a small configuration through a real Slurm of one node, and compare its tables with those of a local run.
#
#   bash .ci/slurm_single_node.sh            install what is missing, start, run both, compare, stop (as root, Debian)
#   bash .ci/slurm_single_node.sh start|stop only start or stop the node; all its files are in .slurm-test/
#
# Needs no systemd. The link /etc/slurm/slurm.conf is needed because the executor takes SLURM_* out of the environment of
# its jobs; it is removed again.
set -euo pipefail
cd "$(dirname "$0")/.."
folder="$PWD/.slurm-test"
host="$(hostname -s)"
export SLURM_CONF="$folder/slurm.conf"

stop() { # by process id, never by name
  scancel --user="$(id -un)" 2>/dev/null || true
  for daemon in slurmd slurmctld munged; do
    [ -s "$folder/$daemon.pid" ] || continue
    pid="$(cat "$folder/$daemon.pid")"
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 50); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
  done
  [ "$(readlink /etc/slurm/slurm.conf)" != "$SLURM_CONF" ] || rm /etc/slurm/slurm.conf
}

start() {
  if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null; then
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends slurm-wlm munge
  fi
  mkdir -p "$folder"/{state,spool,log,munge} /etc/slurm
  chmod 700 "$folder/munge"
  [ -s "$folder/munge/key" ] || head -c 1024 /dev/urandom >"$folder/munge/key"
  chmod 600 "$folder/munge/key"
  munged --force --key-file="$folder/munge/key" --socket="$folder/munge/sock" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"
  megabytes=$(($(awk '/^MemTotal:/ {print $2}' /proc/meminfo) / 1024 * 9 / 10))
  cpus="$(nproc --all)" # plain nproc counts OMP_NUM_THREADS
  cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/sock
CredType=cred/munge
SlurmctldPort=16817
SlurmdPort=16818
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$folder/log/jobs.log
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=1,sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
MpiDefault=none
MinJobAge=3600
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$megabytes State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=UNLIMITED DefMemPerCPU=1000 State=UP
CONF
  [ -e /etc/slurm/slurm.conf ] || ln -s "$SLURM_CONF" /etc/slurm/slurm.conf
  slurmctld -f "$SLURM_CONF"
  slurmd -f "$SLURM_CONF"
  for _ in $(seq 100); do
    [ "$(sinfo -h -o %T 2>/dev/null)" != idle ] || return 0
    sleep 0.2
  done
  sinfo
  tail -n 20 "$folder"/log/*.log
  return 1
}

run() { # configuration, name of the results folder, then options of snakemake
  .venv/bin/snakemake --quiet --configfile "$1" --config "results_dir=results/$2" "${@:3}"
}

through_slurm() { # configuration, name of the results folder, then targets
  began=$SECONDS
  # Without an accounting data base squeue tells the state of jobs; on one node it may be asked often.
  run "$1" "$2" --workflow-profile profiles/slurm --jobs 16 --cores "$(nproc --all)" --latency-wait 10 \
    --default-resources slurm_partition=main mem_mb=2000 runtime=30 \
    --slurm-status-command squeue --slurm-no-account \
    --slurm-init-seconds-before-status-checks 2 --seconds-between-status-checks 2 -- "${@:3}"
  echo "$2 through Slurm: $(grep -c . "$folder/log/jobs.log") jobs so far, $((SECONDS - began)) s"
  ! grep -v "JobState=COMPLETED" "$folder/log/jobs.log"
}

locally() { # as `through_slurm`
  began=$SECONDS
  run "$1" "$2" --cores 2 -- "${@:3}"
  echo "$2: $((SECONDS - began)) s"
}

case "${1:-all}" in
start) start ;;
stop) stop ;;
all)
  python3 envs/install.py
  rm -rf results/slurm results/slurm_local
  trap stop EXIT
  start
  echo "Slurm $(sinfo --version | cut -d' ' -f2), one node"
  through_slurm .test/config/config.yaml slurm
  locally .test/config/config.yaml slurm_local
  for table in results/slurm/tables/*; do
    name="$(basename "$table")"
    [ "$name" = timings.csv ] || cmp "$table" "results/slurm_local/tables/$name"
  done
  echo "the same tables, byte for byte: $(ls results/slurm/tables | grep -vx timings.csv | xargs)"
  ;;
*)
  echo "usage: $0 [start|stop]" >&2
  exit 2
  ;;
esac
