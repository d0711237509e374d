#!/bin/sh
# Evaluates one data set on four machines of a Slurm cluster: sbatch examples/slurm-shards.sh
# Afterwards, on any machine that sees the same folder: assay merge runs-slurm/*/* --out runs
#SBATCH --array=1-4
#SBATCH --time=02:00:00
#SBATCH --requeue
set -eu

SHARDS=${SHARDS:-4}
DATASET=${DATASET:-nfcorpus}
TARGET=${TARGET:-builtin:hybrid}
OUT=runs-slurm/$SLURM_ARRAY_TASK_ID

# A task that was preempted goes on where it stopped.
if ls "$OUT"/*/run.json >/dev/null 2>&1; then
    assay eval --resume latest --out "$OUT"
else
    assay eval "$TARGET" --dataset "$DATASET" --shard "$SLURM_ARRAY_TASK_ID/$SHARDS" --out "$OUT"
fi
