#!/usr/bin/env bash
# slurm_parts.sh - one checkpoint written by an array of Slurm jobs, then merged: cli/parts.md says how parts work.
#
#   bash slurm_parts.sh N OUT VERB IN [options]     submits N jobs and one that merges when all have ended well
#   bash slurm_parts.sh 8 /scratch/out quantize /scratch/model -f nvfp4:4/6 --layout modelopt
#
# Run the same line again after a failure: parts that are finished are compared and left as they are, others go on
# where they stopped. Memory is a few row panels for each thread, whatever the size of the model.
#SBATCH --job-name=kerf
#SBATCH --cpus-per-task=16
#SBATCH --mem=16G
#SBATCH --time=04:00:00
#SBATCH --requeue
set -euo pipefail
[ $# -ge 4 ] || { sed -n '4,5s/^# *//p' "$0" >&2 && exit 2; }
n=$1 out=${2%/}
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then # one of the jobs
    exec kerf "${@:3}" -o "$out" --part "$SLURM_ARRAY_TASK_ID/$n" --resume -j "${SLURM_CPUS_PER_TASK:-1}" --progress none
fi
array=$(sbatch --parsable --array="1-$n" "$0" "$@")
sbatch --parsable --job-name=kerf-merge --cpus-per-task=8 --time=01:00:00 --dependency="afterok:${array%%;*}" \
    --wrap "exec kerf merge $(printf %q "$out") -j 8 --progress none"
