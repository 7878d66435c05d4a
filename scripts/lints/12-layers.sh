#!/usr/bin/env bash
# Modules of Weir know only modules of lower layers.
source "$(dirname "$0")/../lib.sh"
need_program python3 "Python 3.11 or newer."
scripts/layers.py
