#!/usr/bin/env bash
# ruff over all Python of the repository: lint rules (ruff.toml) and formatting.
source "$(dirname "$0")/../lib.sh"
ruff=$(need_venv ruff scripts/lints/requirements.txt)/bin/ruff
"$ruff" check --quiet --no-cache .
"$ruff" format --quiet --no-cache --check .
