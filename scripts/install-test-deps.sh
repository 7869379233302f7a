#!/usr/bin/env bash
# Installs what the tests need beyond Go: only what is missing, with apt-get, and
# only where that may be done (root, or sudo without a password). Where it may not,
# it says what is missing and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

# command:package:what needs it
needs="
gcc:gcc libc6-dev:the race detector
node:nodejs:SDK clients and MCP servers as test peers
npm:npm:installing these peers
redis-server:redis-server:the Redis store
chromium:chromium:the MCP server that drives a browser
curl:curl:the sessions that the documents show
spin:spin:the model of the probe protocol
"

missing=() packages=()
while IFS=: read -r command package reason; do
	if [ -n "$command" ] && ! command -v "$command" >/dev/null; then
		missing+=("$command ($reason)")
		read -ra words <<<"$package"
		packages+=("${words[@]}")
	fi
done <<<"$needs"

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

if [ ${#missing[@]} -gt 0 ]; then
	if command -v apt-get >/dev/null && as_root true 2>/dev/null; then
		echo "installing ${packages[*]}"
		as_root apt-get -qq update
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "${packages[@]}" >/dev/null
	else
		printf 'the tests need: %s\n' "${missing[@]}" >&2
		echo "install them by hand, or run this as root on a Debian system" >&2
		exit 1
	fi
fi

# Node peers are pinned by lock files beside the tests that use them.
find . -name node_modules -prune -o -name package-lock.json -print | while read -r lock; do
	folder=$(dirname "$lock")
	if [ ! "$folder/node_modules/.package-lock.json" -nt "$lock" ]; then
		echo "npm ci in $folder"
		(cd "$folder" && npm ci --no-audit --no-fund --loglevel=error </dev/null)
	fi
done
