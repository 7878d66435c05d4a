#!/usr/bin/env bash
# Links, anchors and blocks of README.md and docs/, the list of pages, and the picture in the README against the results that it shows.
source "$(dirname "$0")/../lib.sh"
need_program python3 "Python 3.11 or newer."
scripts/pages.py lint
scripts/chart.py --check
