#!/usr/bin/env bash
# Words that are not used, in documents, comments and messages: scripts/words/forbidden.txt says what to write instead.
source "$(dirname "$0")/../lib.sh"
need_program python3 "Python 3.11 or newer."
scripts/words/words.py
