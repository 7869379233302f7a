#!/usr/bin/env bash
# Runs every fuzz target of the module, one after the other, each for $1 (default 10s).
set -euo pipefail
cd "$(dirname "$0")/.."
go list ./... | while read -r package; do
	go test -list '^Fuzz' "$package" | { grep '^Fuzz' || true; } | while read -r target; do
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${1:-10s}" -fuzzminimizetime 1s "$package" </dev/null
	done
done
