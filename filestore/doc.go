// Package filestore keeps circuits in a directory: for many processes on one
// machine, without a server.
//
//	events ──> lock ──> read what others appended ──> Fold ──> append, one write
//	                                                   │
//	   model+openai+gpt-5.jsonl                        └─> the state after them
//	     {"at":…,"outcome":"failure",…,"state":{…,"through":464}}
//	     {"at":…,"kind":"transition",…,"state":{…,"through":1012}}
//
// One append-only file per circuit, JSON Lines, is the truth; there is no
// second copy to disagree with it. Lines that this package writes carry the
// state after them, so the newest state is read from the file's tail.
//
// # Which lines a state accounts for
//
// State.Through is the byte at which the line that carries the state ends, line
// end included, as its writer meant it. It says that every byte before it has
// been folded. Any program may append evidence without a lock and without a
// state, in one write that ends with a newline. Where such a line slipped in
// between a writer's look and its write, the stated line ends later than its
// Through says; the difference is the length of what slipped in, right before
// the write, and that is folded after it.
//
// Lines that no state accounts for are folded on top, by the policy in the
// state. The next writer under the lock records the outcome in a checkpoint
// line, whose time is the clock by which they were judged: a line whose time
// lies after that was in the future. [Refold] does the same and so gives
// exactly the recorded states.
//
// A log that has grown long is begun anew with a checkpoint, which names the old
// file and how much of it is accounted for. A program that keeps the old file
// open may go on writing to it until the next rotation: the next writer copies
// its lines into the log.
//
// A state with many marks is not written with every line, but once the lines
// since the last one are about as long as it, and at every transition.
//
// # Who is there
//
// Processes that live on leave a small file each in the folder workers: see
// [fusebox.Presence]. No circuit depends on it.
//
// # What is shared out
//
// What processes divide among them ([Store.Share]) is in files of its own,
// NAME.shares, each with a lock; they are no evidence.
//
// # Older files
//
// A harness that kept a plain counter can go on beside this package. For a
// circuit whose file is F.jsonl, and for session/NAME also with NAME in place
// of F: F.failures, an integer, counts as that many failures at its time of
// modification, while no log exists and that time lies within the policy's
// longest window (an hour where it has none). F.blocked-until, one time, holds
// the circuit open until then; an operator's lift removes it. What cannot be
// read in them is reported by [Store.Inspect] and blocks nothing. This package
// writes neither.
package filestore
