// Package redisstore keeps circuits in Redis or Valkey: for workers on many
// machines.
//
//	worker ── events ──> append: pending list, short lock ─┐
//	worker ── events ──> append: pending list              │ who has the lock
//	                                                       v
//	           Fold, in Go, with the server's time ──> commit: state, evidence,
//	                                                       │   publish
//	           every worker's copy  <── subscription ──────┘
//
// Nobody folds twice and nobody tries again in a race: a worker appends its
// events in one round trip and tries the circuit's lock. Whoever gets it folds
// everything that is pending, the others' events too, and commits the state;
// the commit is refused unless the lock is still held. A holder that dies costs
// the lock's time, a tenth of a second where the server is near, and loses
// nothing.
//
// The keys of a circuit share one hash tag, so a cluster keeps them in one slot:
//
//	fusebox:{model/openai/gpt-5}:state    hash: state, epoch, in, news
//	fusebox:{model/openai/gpt-5}:pending  list: batches that are not folded yet
//	fusebox:{model/openai/gpt-5}:lock     string: who folds
//	fusebox:{model/openai/gpt-5}:log      stream: the newest evidence
//	fusebox:{model/openai/gpt-5}:seen:ID  string: a reporter's newest event
//
// The hash counts the batches that ever came in, and the changes that were
// published (news); its epoch is drawn at random when it is made, so that a
// server that lost its data is told from one that did not. All keys expire when
// nobody uses the circuit for a while, but for the state of one that is not
// closed.
//
// One key is everybody's: who is there, see [fusebox.Presence].
//
//	fusebox:workers                       hash: a field for each worker
//
// A report whose answer got lost is sent again with the same IDs and is skipped
// where it had arrived. The server's clock rules: a worker takes times from it
// as differences to one reply, and no worker's wall clock matters.
//
// What workers divide among them ([Store.Share]) is one more hash, of
// "held need until" by owner:
//
//	fusebox:{limit/openai/calls}:shares
package redisstore
