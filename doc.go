// Package fusebox decides whether an attempt is worth making, and tells the
// caller what to do when it is not. It guards what agents and workers call:
// models, tools, whole sessions, any Go function.
//
// # The idea
//
// Count evidence, not adjacency; keep one log of it; derive everything from
// that log by one pure function.
//
//	evidence ──> Fold(policy, state, event) ──> state ──> decision: go, or denied + what to do instead
//	                    │                          │
//	               one evidence log      circuit, gateway, doctor, why, metrics, replay: readers
//
// An [Event] is one record: what was observed, when. [Fold] is the state
// machine, and the only one: the circuit in the process, every store and every
// reader use it. A [State] is a value; [State.Decide] reads it.
//
// # The circuit
//
// A [Circuit] guards one dependency and is named kind/name: "model/openai/gpt-5",
// "tool/crm/lookup", "session/claude". Its [Policy] says what trips it, how long
// it stays open and how it is probed. These transitions happen and no other,
// apart from an operator's trip, reset and hold:
//
//	closed ──rule met──> open ──cooldown over──> half-open ──probe succeeds──> closed
//	                      ^                          │
//	                      └────────probe fails───────┘
//
// A probe is a lease: it ends by its result or by its deadline, so that a probe
// that hangs, panics or dies with its process holds nothing up. A call votes
// only in the version of the circuit in which it was admitted: what comes back
// late is recorded and decides nothing.
//
// # What a result says
//
// The circuit asks "did the dependency work?", thrash asks "did the plan work?":
//
//	Outcome    for example                           circuit               thrash
//	Success    2xx, exit code 0                      works                 clears that call
//	Rejected   400, 404, 422, bad arguments          works: it answered    counts
//	Failure    timeout, refused, reset, 5xx, panic   fails                 counts
//	Throttled  429 with Retry-After                  neither: not before   neither
//	Canceled   the caller gave up                    neither               neither
//
// # Which call to use
//
// A [Box] is the set of a process's circuits; make one with [New]. Agents want
// [Call], the whole guard around one call of a run. Its order is the control:
//
//	stuck run? ── thrash? ── throttled? ── circuit? ── retry( timeout( call ) ) ── one evidence record
//
// Thrash comes before the circuit, because a wrong plan against a healthy
// dependency opens none:
//
//	answer, err := fusebox.Call(ctx, box.Run("ticket-17"), crm, args, func(ctx context.Context) (string, error) {
//		return lookUp(ctx, args)
//	})
//
// [Do] is the circuit alone. [Circuit.Allow] and [Permit.Done] are the two steps
// under it, for calls whose end is elsewhere. A refusal is a *[Denial]: an error
// with the reason, the time left and an instruction that an agent can follow.
//
// The root package imports the standard library alone. The folders around it
// hold one technology each and know nothing of each other.
package fusebox
