# shellcheck shell=bash disable=SC2154
# Instructions that Weir executes per request, by callgrind: sourced by scripts/bench. Counts, not times: a busy machine moves those of a GET by
# up to 3 %.
# `--baseline BINARY` counts an earlier build beside this one; `--keep DIR` keeps callgrind's files for callgrind_annotate.
need nginx
need valgrind
need_measured
exec python3 benches/instructions/instructions.py --weir "$weir" --out "$out" "$@"
