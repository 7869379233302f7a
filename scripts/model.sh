#!/usr/bin/env bash
# Checks docs/model/probe.pml: every claim must hold, and every broken variant of
# the protocol must fail the claim that it breaks. model.sh long searches further.
# See docs/model/README.md.
set -euo pipefail
model=$(cd "$(dirname "$0")/.." && pwd)/docs/model/probe.pml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
optimise=-O1 # compiling takes longer than a small search: these go without

# search CLAIM DEFINES... explores every state; CLAIM - is the assertions alone.
search() {
	local claim=$1 faults="" compile run
	shift
	for name in FAILURES BAD CANCELS RENEWALS CRASHES LAPSES EXPIRIES FAILOVERS; do
		faults+=" -D$name=0"
	done
	for define in "$@"; do
		faults="${faults/-D${define%=*}=0/} -D$define"
	done
	if [ "$claim" = - ]; then
		compile="-DSAFETY -DNOCLAIM -DNOFAIR" run=""
	else
		compile="-DNFAIR=3" run="-a -f -N $claim" # a process that can go on goes on
	fi
	(
		cd "$work"
		# shellcheck disable=SC2086
		spin -a $faults "$model" >said && gcc -w "$optimise" $compile -DVECTORSZ=1024 -DMEMLIM=1024 -o pan pan.c &&
			timeout 120 ./pan -m20000 $run >said 2>&1
	) || echo "not completed: spin, gcc or the search failed" >>"$work/said"
}

states() { sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/said"; }

# holds CLAIM DEFINES... wants it to hold in every state.
holds() {
	search "$@"
	if grep -q 'errors: 0' "$work/said" && ! grep -qE 'not completed|depth too small' "$work/said"; then
		printf 'ok    %9s states  %s\n' "$(states)" "$*"
	else
		printf 'FAIL  %s\n' "$*"
		cat "$work/said"
		failed=1
	fi
}

# breaks MUTANT ASSERTION DEFINES... wants the assertion to fail.
breaks() {
	local mutant=$1 assertion=$2
	shift 2
	search - "$mutant=1" "$@"
	if grep -qF "assertion violated" "$work/said" && grep -qF "$assertion" "$work/said"; then
		printf 'ok    fails as it must  %s %s\n' "$mutant" "$*"
	else
		printf 'FAIL  %s %s: nothing noticed it\n' "$mutant" "$*"
		cat "$work/said"
		failed=1
	fi
}

for command in spin gcc; do
	command -v "$command" >/dev/null || { echo "$command is missing: scripts/install-test-deps.sh installs it" >&2; exit 1; }
done

# All of them together have too many states: each search has the faults that
# can matter to each other.
holds - FAILURES=2 FAILOVERS=1
holds - FAILURES=2 CRASHES=1 EXPIRIES=1
holds - FAILOVERS=1 LAPSES=1 RENEWALS=1
holds - CRASHES=1 LAPSES=1 EXPIRIES=1 RENEWALS=1
holds - BAD=1 CANCELS=1 LAPSES=1 EXPIRIES=1 RENEWALS=1
if [ "${1:-}" = long ]; then
	holds - FAILOVERS=1 LAPSES=1 BAD=1
	holds - FAILOVERS=1 CRASHES=1
fi

optimise=-O0
holds slot_comes_back CRASHES=1 LAPSES=1
holds slot_comes_back FAILOVERS=1
holds probed_again BAD=1 CRASHES=1
holds probed_again FAILURES=2 FAILOVERS=1

breaks NO_FENCE 'is.token==' LAPSES=1
breaks VERSION_ALONE 'is.token==' FAILOVERS=1
breaks LEASE_WITHOUT_DEADLINE 'store.is.phase==0' CRASHES=1
breaks COMMIT_WITHOUT_LOCK 'folded.version>=' EXPIRIES=1
breaks NO_HEALING 'copy.version<=' FAILURES=2 FAILOVERS=1
breaks SENT_AGAIN_COUNTS_AGAIN 'folded.marks<=' FAILURES=2

exit $failed
