#!/usr/bin/env bash
# `comity-lab sweep` by the engines themselves, on this machine alone: HyperQueue with four workers of one core, and
# Slurm with a controller and four nodes of one CPU. On the way a worker of HyperQueue is killed by SIGKILL; of
# Slurm first a shard, then a node with all that ran there. What is merged must have the bytes of a run here, and
# the same command must find nothing left to do.
#
# HyperQueue is `hq`, where it is on the PATH; else the package of PyPI, in a folder that is removed at the end.
# Slurm is Debian's, which is installed if it is missing.
#
# Usage: checks/sweep.sh [hyperqueue] [slurm]       both by default
set -euo pipefail
cd "$(dirname "$0")/.."
engines=("$@")
[ $# -gt 0 ] || engines=(hyperqueue slurm)
for engine in "${engines[@]}"; do
    case $engine in
    hyperqueue | slurm) ;;
    *) echo "usage: checks/sweep.sh [hyperqueue] [slurm]" >&2; exit 2 ;;
    esac
done
# What is run, last of all this paper: the 28 pairs of BWS's figure 2, and each program alone.
paper=bws
shards=12
sweep() {
    cat <<TOML
out = "out"
shards = $shards
[[simulate]]
scenarios = ["$PWD/lab/scenarios/host.toml", "$PWD/lab/scenarios/recorded.toml"]
policy = ["abp,bws,comity"]
set = ["machine.cores=4,8", "runs=10"]
csv = true
plot = true
[[reproduce]]
paper = "$paper"
experiments = ["fig2"]
TOML
}

cargo build -q -p comity-lab
lab=$(realpath "${CARGO_TARGET_DIR:-target}/debug/comity-lab")
desk=$(mktemp -d)
# The processes of an engine, which end with this script.
started=()
finish() {
    [ ${#started[@]} = 0 ] || kill "${started[@]}" 2>/dev/null || true
    wait
    rm -rf "$desk"
}
trap finish EXIT

fail() {
    echo "sweep: $*" >&2
    exit 1
}

# wait_for WHAT COMMAND…: tries again and again, for very long: other things want the cores too.
wait_for() {
    local what=$1 from=$SECONDS
    shift
    until "$@"; do
        [ $((SECONDS - from)) -lt 600 ] || fail "$what did not come in 600 s"
        sleep 0.1
    done
}

# Whether there is what the process that was started last makes, which is not if it has died.
has_made() {
    [ -e "$2" ] && return
    kill -0 "${started[-1]}" 2>/dev/null || { cat "$1" >&2; fail "$engine did not start, above"; }
    return 1
}

# Whether processes have ended. A process that its parent has not waited for yet has, too.
have_ended() {
    local process
    for process in "$@"; do
        case $(ps -o stat= -p "$process") in '' | Z*) ;; *) return 1 ;; esac
    done
}

# The results of a sweep: all but runs and logs.
results() {
    (cd "$desk/$1/out" && find . -type f ! -path '*/runs/*' ! -path './logs/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum)
}

is_done() {
    [ -e "$desk/$engine/out/$paper/runs/shard-$1-of-$shards.done" ]
}

# How many runs of a shard are filed, of the paper or of all.
filed() {
    cat "$desk/$engine/out"/$2/runs/*.shard-"$1-of-$shards".jsonl 2>/dev/null | grep -c '^{"run"' || true
}

# Which shard a process does, if it has come to the paper and some runs of that are filed.
shard_of() {
    local words
    words=$(tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline") || return 1
    [[ $words =~ /comity-lab\ sweep.*\ --shard\ ([0-9]+)/$shards ]] || return 1
    shard=${BASH_REMATCH[1]}
    ! is_done "$shard" && [ "$(filed "$shard" $paper)" -ge 2 ]
}

# struck WHAT PROCESS: after what was done to the process of `shard`.
struck() {
    wait_for "the end of process $2" have_ended "$2"
    ! is_done "$shard" || fail "shard $shard was done before it was killed"
    echo "$engine: killed $1; $(filed "$shard" '*') of the shard's runs were filed"
}

# HyperQueue: the server's folder has the workers' process numbers.
start_hyperqueue() {
    local server=$desk/server
    mkdir "$server"
    if command -v hq >/dev/null; then
        echo "hyperqueue: $(hq --version), by its command"
        hq --server-dir "$server" server start >"$desk/server.log" 2>&1 &
        started+=($!)
        wait_for "HyperQueue's server" has_made "$desk/server.log" "$server/hq-current/access.json"
        for _ in 1 2 3 4; do
            hq --server-dir "$server" worker start --cpus=1 >>"$desk/workers.log" 2>&1 &
            started+=($!)
            echo $! >>"$server/workers"
        done
    else
        { python3 -m venv "$desk/venv" && "$desk/venv/bin/pip" install -q hyperqueue; } >"$desk/pip.log" 2>&1 || {
            cat "$desk/pip.log" >&2
            fail "cannot install HyperQueue from PyPI, above; put hq on the PATH, or name the other engine alone"
        }
        export PATH=$desk/venv/bin:$PATH
        echo "hyperqueue: $(pip show hyperqueue 2>/dev/null | sed -n 's/^Version: //p'), the package of PyPI"
        python3 checks/sweep-workers.py "$server" 4 >"$desk/server.log" 2>&1 &
        started+=($!)
        wait_for "HyperQueue's workers" has_made "$desk/server.log" "$server/workers"
        started+=($(cat "$server/workers"))
    fi
    printf '[hyperqueue]\nserver_dir = "%s"\n' "$server" >>"$desk/hyperqueue/sweep.toml"
}

# A worker dies, and the kernel ends its shard.
strike_hyperqueue() {
    local worker child
    for worker in $(cat "$desk/server/workers"); do
        for child in $(pgrep -P "$worker"); do
            shard_of "$child" || continue
            # Of its end the shell need not tell.
            disown "$worker" 2>/dev/null || true
            kill -KILL "$worker"
            struck "worker $worker with shard $shard" "$child"
            return
        done
    done
    return 1
}

start_slurm() {
    if ! command -v slurmctld slurmd munged sbatch >/dev/null; then
        echo "Slurm is missing; installing it" >&2
        apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge >/dev/null 2>&1 ||
            { apt-get update -qq && apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge; } >/dev/null 2>&1 ||
            fail "cannot install Slurm; install slurmctld, slurmd, slurm-client and munge, or name the other engine alone"
    fi
    local slurm=$desk/slurm.d user host node
    user=$(id -un) host=$(hostname -s)
    mkdir "$slurm" "$slurm/state"
    (umask 077 && head -c 1024 /dev/urandom >"$slurm/key")
    # A task that is killed goes back to the queue for as long as its credential may be used, else two minutes. A
    # node that says nothing is given up after ten seconds.
    cat >"$slurm/slurm.conf" <<CONF
ClusterName=check
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$slurm/munge,cred_expire=5
SlurmctldPort=16817
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/%n
SlurmctldPidFile=$slurm/controller.pid
SlurmdPidFile=$slurm/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SlurmdTimeout=10
ReturnToService=2
$(for node in 1 2 3 4; do echo "NodeName=n$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((16820 + node)) CPUs=1 State=UNKNOWN"; done)
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
    export SLURM_CONF=$slurm/slurm.conf
    munged --foreground --force --key-file="$slurm/key" --socket="$slurm/munge" --pid-file="$slurm/munge.pid" \
        --log-file="$slurm/munge.log" --seed-file="$slurm/seed" >"$slurm/munge.out" 2>&1 &
    started+=($!)
    wait_for munge has_made "$slurm/munge.out" "$slurm/munge"
    slurmctld -D -f "$SLURM_CONF" >"$slurm/controller.log" 2>&1 &
    started+=($!)
    daemons=()
    for node in 1 2 3 4; do
        mkdir "$slurm/n$node"
        slurmd -D -N "n$node" -f "$SLURM_CONF" >"$slurm/n$node.log" 2>&1 &
        started+=($!)
        daemons[node]=$!
    done
    echo "slurm: $(sbatch --version)"
    wait_for "four idle nodes" has_four_nodes
}

has_four_nodes() {
    [ "$(timeout 20 sinfo --noheader --Node --states=idle --format=%N 2>/dev/null | wc -l)" = 4 ]
}

# The first time a shard is killed, the second time a node.
strike_slurm() {
    local node script child
    for node in 1 2 3 4; do
        for script in $(pgrep -f "^/bin/sh $desk/slurm.d/n$node/job"); do
            for child in $(pgrep -P "$script"); do
                shard_of "$child" || continue
                if [ "$strikes" = 1 ]; then
                    kill -KILL "$child"
                    struck "shard $shard" "$child"
                else
                    disown "${daemons[node]}"
                    kill -KILL "${daemons[node]}" "$(ps -o ppid= -p "$script" | tr -d ' ')" "$script" "$child"
                    struck "node n$node with shard $shard" "$child"
                fi
                return
            done
        done
    done
    return 1
}

# A blow, or the end of the sweep, before which there should have been one.
strike() {
    kill -0 "$sweep" 2>/dev/null || fail "$engine: the sweep ended before blow $strikes"
    "strike_$engine"
}

mkdir "$desk/whole"
sweep >"$desk/whole/sweep.toml"
SECONDS=0
"$lab" -q sweep "$desk/whole/sweep.toml" >"$desk/whole/said"
results whole >"$desk/whole/sums"
echo "local: $SECONDS s, $(wc -l <"$desk/whole/sums") files of results"
for engine in "${engines[@]}"; do
    mkdir "$desk/$engine"
    sweep >"$desk/$engine/sweep.toml"
    "start_$engine"
    SECONDS=0
    "$lab" sweep "$desk/$engine/sweep.toml" --engine "$engine" >"$desk/$engine/said" 2>"$desk/$engine/errors" &
    sweep=$!
    blows=1
    [ "$engine" != slurm ] || blows=2
    for ((strikes = 1; strikes <= blows; strikes++)); do
        wait_for "a shard to kill" strike
    done
    wait $sweep || { cat "$desk/$engine/errors" >&2; fail "$engine: the sweep failed, above"; }
    results "$engine" | diff "$desk/whole/sums" - || fail "$engine: results are not those of a run here, above"
    # What is said names the folder of pictures.
    sed "s|$desk/$engine/|$desk/whole/|" "$desk/$engine/said" | diff "$desk/whole/said" - || fail "$engine: it says something else, above"
    echo "$engine: $SECONDS s, all $(wc -l <"$desk/whole/sums") files have the bytes of a run here"
    "$lab" sweep "$desk/$engine/sweep.toml" --engine "$engine" >/dev/null 2>"$desk/$engine/again"
    ! grep 'are given to' "$desk/$engine/again" || fail "$engine: called again, it ran shards again, above"
    echo "$engine: called again, it found nothing left to do"
done
