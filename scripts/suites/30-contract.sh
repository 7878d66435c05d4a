#!/usr/bin/env bash
# The contract suite's own tests: that it finds what it is there to find. The suites of the services run its cases.
source "$(dirname "$0")/../suite.sh"
python=$(need_venv contract services/contract/requirements.txt)/bin/python
log=$logs/contract-raw.log
code=0
(cd services/contract && "$python" -m pytest -q) 2>&1 | tee "$log" || code=${PIPESTATUS[0]}
count() { grep -Eo "[0-9]+ $1" "$log" | tail -n 1 | grep -Eo '[0-9]+' || echo 0; }
count_line "$(count passed)" "$(($(count failed) + $(count error)))" "$(count skipped)"
exit "$code"
