#!/usr/bin/env bash
# ci/gpu_jobs/slurm.sh: the job for Slurm; flags go to `shardproof fuzz`:
#   sbatch --gpus=1 ci/gpu_jobs/slurm.sh
# World nccl wants a GPU a rank: sbatch --gpus=4 ci/gpu_jobs/slurm.sh --world=nccl --ranks=4
# Build before: ci/build release shardproof shardproof_rank.
#SBATCH --job-name=shardproof-gpu
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus=1
#SBATCH --time=01:00:00
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-$(dirname "${BASH_SOURCE[0]}")/../..}"

exec ci/gpu_job "$@"
