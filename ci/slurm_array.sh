#!/usr/bin/env bash
# ci/slurm_array.sh: one campaign over a Slurm array, a part a task, then the merge of all parts:
#   sbatch --array=1-8 ci/slurm_array.sh --time=1h --seed=7
# With --array=1-8 there are eight parts. A task that is killed and requeued goes on in its journal.
# Results lie in shardproof-JOBID;
#   sbatch --dependency=afterany:JOBID ci/slurm_array.sh merge JOBID
# joins them in shardproof-JOBID/merged. Build before: ci/build release shardproof.
#SBATCH --job-name=shardproof
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --requeue
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-$(dirname "${BASH_SOURCE[0]}")/..}"

program=build/release/shardproof
if [ "${1:-}" = merge ]; then
  exec "$program" merge "shardproof-$2/merged" shardproof-"$2"/part-*
fi
folder=shardproof-${SLURM_ARRAY_JOB_ID:?run it by sbatch --array=1-N}/part-$SLURM_ARRAY_TASK_ID
mkdir -p "$folder"
journal=$folder/journal.jsonl
if [ -s "$journal" ]; then
  campaign=(--resume="$journal")
else
  campaign=(--journal="$journal" --part="$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
            --goldens-out="$folder/golden" "$@")
fi
exec "$program" fuzz --jobs="${SLURM_CPUS_PER_TASK:-0}" --junit="$folder/junit.xml" "${campaign[@]}"
