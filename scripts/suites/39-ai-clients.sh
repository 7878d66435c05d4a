#!/usr/bin/env bash
# The official clients of OpenAI and Anthropic, Python and Node, and of Google, Python, through Weir to simulated providers of the three APIs:
# each client at its own API and at the other ones.
source "$(dirname "$0")/../suite.sh"
suite=ai-clients
source "$root/scripts/lib-services.sh"
here=$root/crates/weir/tests/ai/clients
python=$(need_venv ai-clients "$here/requirements.txt")/bin/python
need_npm "$here"
need_weir
need_built simulator

start simulator '' "$CARGO_TARGET_DIR/debug/simulator"
export SIMULATOR_URL=$url
"$weir" keys create tester --file "$tmp/keys.yaml" >"$tmp/key" 2>"$tmp/key.err" || die "no key: $(cat "$tmp/key.err")"
GATEWAY_KEY=$(tail -n 1 "$tmp/key")
export GATEWAY_KEY
"$here/configuration.py" "$SIMULATOR_URL" "$tmp/keys.yaml" >"$tmp/weir.yaml"
start weir '' "$weir" --config "$tmp/weir.yaml"
export GATEWAY_URL=$url

in_python() { (cd "$here/python" && exec "$python" -m pytest -q -p no:cacheprovider "test_$1.py"); }
in_node() { (cd "$here/node" && exec node --test --test-reporter=tap "$1.test.js"); }
for client in openai anthropic; do
  step "$client-python" in_python "$client"
  step "$client-node" in_node "$client"
done

step google-python in_python google

count_line "$passed" "$failed" "$skipped"
exit "$code"
