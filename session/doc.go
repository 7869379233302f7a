// Package session guards whole processes: agent sessions that cron, a harness
// or a person starts, many at a time, and that share nothing but a store.
//
//	          ┌─ denied: told why and for how long, nothing is started
//	Ask ──────┤
//	          └─ Ticket ──> Run the process ──> Report ──> one evidence record
//	                          │
//	                          ├─ signals forwarded, exit code kept
//	                          ├─ a probe's lease renewed while it runs
//	                          └─ the output's tail searched for a usage limit
//
// Every step goes straight to the store, so that each process sees what all
// others reported. [Pick] chooses among several circuits.
package session
