#!/usr/bin/env bash
# Every shell script by shellcheck, and the workflows of GitHub by actionlint.
source "$(dirname "$0")/../lib.sh"
need shellcheck
need_program go "Go 1.26 or newer builds actionlint: https://go.dev/doc/install"
scripts=()
while IFS= read -r file; do
  case $(head -n 1 "$file") in '#!'*bash* | '#!/bin/sh'* | '# shellcheck shell='*) scripts+=("$file") ;; esac
done < <(git ls-files -co --exclude-standard -- .ci scripts deploy load services 'benches/*/run.sh' | grep -vE '\.(py|js|json|yaml|yml|go|rs|java|md|lua|jmx|txt|toml|sql|lock)$')
# SC1091: what `need_venv` makes is not there yet. SC2034: lib.sh sets variables for those who source it.
shellcheck --external-sources --source-path=SCRIPTDIR --severity=warning --exclude=SC1091,SC2034 "${scripts[@]}"
# renovate: datasource=go depName=github.com/rhysd/actionlint
actionlint_version=v1.7.12
actionlint=$WEIR_CACHE/tools/actionlint-$actionlint_version/actionlint
[ -x "$actionlint" ] || (cd / && GOBIN=$(dirname "$actionlint") go install "github.com/rhysd/actionlint/cmd/actionlint@$actionlint_version")
"$actionlint" -no-color .github/workflows/*.yml
