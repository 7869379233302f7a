// Package replay asks what a policy would have done: to recorded evidence
// ([Log]), to one caller of a dependency that is down for a while ([Outage])
// and to a fleet of workers ([Fleet]). Every answer comes from the fold and
// the decisions of the root package; there is no second state machine here.
//
// A log is replayed in three steps:
//
//	lines ──scan──> calls ──sort by start──> engine ──> transitions, summaries
//
// A recorded call starts at `at - ms` and ends at `at`. The engine asks the
// circuit at the start and, if the call is admitted, reports its result at the
// end; the result of a denied call never happens. What happens at one instant
// has an order: ends before starts, each in the order of the log once it is
// sorted by `at`; a call of no duration starts and ends in one step, at its
// place among the starts.
//
// Of the log only evidence counts: its transitions, denials, leases, holds and
// throttles tell of what was decided then. A throttled result is neutral, as a
// canceled one is.
//
// Calls are sorted outside of memory, in a temporary file, once they are more
// than a buffer holds. So memory does not grow with the log, however far its
// lines are out of order, but with the number of circuits and of calls that
// are in flight at once.
package replay
