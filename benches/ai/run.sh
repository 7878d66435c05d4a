# shellcheck shell=bash disable=SC2154
# What AI routes cost: CPU per call against plain proxying, LiteLLM and Portkey; added time to the first token; 1,000 streams at once.
need nginx valgrind
need_measured
cargo build -q --locked --profile "$BENCH_PROFILE" -p simulator
need_program node "Node.js 20 or newer runs Portkey's gateway."
need_npm benches/ai/portkey
litellm=$(need_venv bench-ai benches/ai/requirements.txt)
PATH=$PATH:$litellm/bin
export PATH
exec python3 benches/ai/ai.py --weir "$weir" --out "$out" "$@"
