/*
 * How workers that share a circuit through a store agree on its probe.
 *
 * What is modelled, what is not and how to run it: README.md. Names are those
 * of the Go sources: fold.go (fold), sync.go (adopt, heal), redisstore/scripts.go
 * and redisstore/fold.go (exchange, commit).
 */

#ifndef FAILURES
#define FAILURES  2   /* calls that fail in a closed circuit, in all */
#endif
#ifndef BAD
#define BAD       1   /* probes that fail */
#endif
#ifndef CANCELS
#define CANCELS   1   /* probes that decide nothing */
#endif
#ifndef RENEWALS
#define RENEWALS  1
#endif
#ifndef CRASHES
#define CRASHES   1   /* workers that die, to come back knowing nothing */
#endif
#ifndef LAPSES
#define LAPSES    1   /* leases that run out while their probe goes on */
#endif
#ifndef EXPIRIES
#define EXPIRIES  1   /* locks that run out while their holder folds */
#endif
#ifndef FAILOVERS
#define FAILOVERS 1   /* each rewinds the store to some earlier moment */
#endif

#define WORKERS 2
#define TRIP    2     /* failures that open the circuit */
#define PENDING (WORKERS + CRASHES + WORKERS * FAILOVERS)   /* an event a worker, and what a failover brings back */
#define TOKENS  9     /* as many as can be known anywhere at once; used again after */
#define LOCKS   6

#define CLOSED 0
#define OPEN   1
#define HALF   2

#define NONE       0
#define FAILED     1  /* an ordinary call */
#define GRANT      2
#define RENEW      3
#define CANCELED   4
#define PASSED     5  /* a probe's verdict: it worked */
#define BROKE      6  /* a probe's verdict: it failed */
#define CHECKPOINT 7

typedef Circuit {
	byte phase;
	byte version;
	byte token;   /* of the lease; 0 = the slot is free */
	byte deadline;   /* the lease's deadline, an index of past */
	byte marks;   /* failures counted while closed */
}

typedef Event {
	byte kind;
	byte who;     /* 0 = a worker that is dead */
	Circuit is;   /* version and token of a report, all of a checkpoint */
}

typedef Store {
	Circuit is;
	byte lock;
	byte waiting;
	Event pending[PENDING];
	bool seen[WORKERS + 1];   /* the worker's newest event has arrived */
}

typedef Worker {
	Circuit copy;     /* the store's state as it was heard last */
	Event out;        /* not acknowledged */
	byte wants;       /* the token that it asked for */
	byte version;     /* of the probe's permit */
	byte token;       /* of the probe's permit; 0 = none */
	byte deadline;
	byte lock;        /* of the exchange under way */
	byte took;        /* events that it is folding */
	Circuit folded;
}

Store store, replica;
Worker w[WORKERS + 1];
bool past[2 * TOKENS + 2];   /* deadlines that are over; a token has two: given and renewed */

byte failures = FAILURES, bad = BAD, cancels = CANCELS, renewals = RENEWALS;
byte crashes = CRASHES, lapses = LAPSES, expiries = EXPIRIES, failovers = FAILOVERS;
bool lags;          /* the replica is behind from now on */

#define given(t)   (2 * (t))
#define renewed(t) (2 * (t) + 1)

#ifdef LEASE_WITHOUT_DEADLINE
#define lapsed(c) false
#else
#define lapsed(c) past[c.deadline]
#endif

/* Which reports settle the half-open phase. */
#ifdef NO_FENCE
#define settles(f, e) (f.phase == HALF)
#else
#ifdef VERSION_ALONE
#define settles(f, e) (f.phase == HALF && e.version == f.version)
#else
#define settles(f, e) (f.phase == HALF && e.version == f.version && e.token == f.token)
#endif
#endif

inline copyCircuit(to, from) {
	to.phase = from.phase; to.version = from.version; to.token = from.token;
	to.deadline = from.deadline; to.marks = from.marks
}

inline forget(it) {
	it.phase = CLOSED; it.version = 0; it.token = 0; it.deadline = 0; it.marks = 0
}

inline copyEvent(to, from) {
	to.kind = from.kind; to.who = from.who; copyCircuit(to.is, from.is)
}

inline forgetEvent(ev) {
	ev.kind = NONE; ev.who = 0; forget(ev.is)
}

inline copyStore(to, from) {
	copyCircuit(to.is, from.is); to.lock = from.lock; to.waiting = from.waiting;
	for (i : 0 .. PENDING - 1) { copyEvent(to.pending[i], from.pending[i]) }
	for (i : 1 .. WORKERS) { to.seen[i] = from.seen[i] }
}

/* move begins a new version. */
inline move(now, to) {
	now.phase = to; now.version++; now.token = 0; now.deadline = 0; now.marks = 0
}

inline fold(now, ev) {
	if
	:: ev.kind == FAILED && now.phase == CLOSED && ev.is.version == now.version ->
		now.marks++;
		assert(now.marks <= FAILURES - failures);   /* no failure counts twice */
		if
		:: now.marks >= TRIP -> move(now, OPEN)
		:: else
		fi
	:: ev.kind == GRANT && ev.is.token != now.token ->
		if
		:: now.phase == OPEN ->
			move(now, HALF); now.token = ev.is.token; now.deadline = ev.is.deadline
		:: now.phase == HALF && (now.token == 0 || lapsed(now)) ->
			now.token = ev.is.token; now.deadline = ev.is.deadline
		:: else
		fi
	:: ev.kind == RENEW && ev.is.token == now.token ->
		now.deadline = ev.is.deadline
	:: (ev.kind == CANCELED || ev.kind == PASSED || ev.kind == BROKE) && settles(now, ev.is) ->
		assert(ev.is.token == now.token);            /* an old report settles nothing */
		if
		:: ev.kind == CANCELED -> now.token = 0; now.deadline = 0
		:: ev.kind == PASSED -> move(now, CLOSED)
		:: ev.kind == BROKE -> move(now, OPEN)
		fi
	:: ev.kind == CHECKPOINT && (ev.is.version > now.version ||
			ev.is.version == now.version && (now.phase == CLOSED || ev.is.phase != CLOSED)) ->
		copyCircuit(now, ev.is)
	:: else
	fi
}

/* freshToken draws a token that nobody knows. */
inline freshToken(t) {
	t = 0;
	do
	:: t++;
		assert(t <= TOKENS);
		known = (store.is.token == t || replica.is.token == t);
		for (i : 0 .. PENDING - 1) {
			known = known || store.pending[i].is.token == t || replica.pending[i].is.token == t
		}
		for (i : 1 .. WORKERS) {
			known = known || w[i].copy.token == t || w[i].token == t || w[i].wants == t ||
				w[i].out.is.token == t || w[i].folded.token == t
		}
		if
		:: !known -> break
		:: else
		fi
	od;
	past[given(t)] = false; past[renewed(t)] = false
}

inline freshLock(t) {
	t = 0;
	do
	:: t++;
		assert(t <= LOCKS);
		known = (store.lock == t || replica.lock == t);
		for (i : 1 .. WORKERS) { known = known || w[i].lock == t }
		if
		:: !known -> break
		:: else
		fi
	od
}

/* say makes an event that no store has seen. */
inline say(k) {
	w[me].out.kind = k; w[me].out.who = me;
	store.seen[me] = false; replica.seen[me] = false
}

inline sayOfProbe(k) {
	say(k); w[me].out.is.version = w[me].version; w[me].out.is.token = w[me].token
}

inline endProbe() { w[me].version = 0; w[me].token = 0; w[me].deadline = 0 }

/* Probes under way whose lease is live, as far as the worker knows. */
#define probing(n) (w[n].token != 0 && !past[w[n].deadline])

/* adopt takes over what the store answered, unless it has lost what is known. */
inline adopt() {
	if
#ifndef NO_HEALING
	:: w[me].copy.version > store.is.version ->
		say(CHECKPOINT); copyCircuit(w[me].out.is, w[me].copy)
#endif
	:: else ->
		assert(w[me].copy.version <= store.is.version);   /* nobody goes back */
		copyCircuit(w[me].copy, store.is);
		if
		:: w[me].wants != 0 && w[me].wants == store.is.token ->
			w[me].token = w[me].wants; w[me].version = store.is.version; w[me].deadline = store.is.deadline
		:: else
		fi;
		if
		:: w[me].token != 0 && w[me].token == store.is.token -> w[me].deadline = store.is.deadline
		:: else
		fi;
		assert(probing(1) + probing(2) <= 1 + FAILOVERS - failovers);   /* one probe, and one more a failover */
		w[me].wants = 0; w[me].lock = 0; forgetEvent(w[me].out)
	fi
}

/* append is the script that takes in an event and tries the lock. Its answer is
 * folded, or adopted if nothing of the worker's waits. */
inline append() {
#ifdef SENT_AGAIN_COUNTS_AGAIN
	if
	:: w[me].out.kind != NONE && store.waiting < PENDING ->
#else
	if
	:: w[me].out.kind != NONE && !store.seen[me] ->
#endif
		assert(store.waiting < PENDING);
		copyEvent(store.pending[store.waiting], w[me].out);
		store.waiting++; store.seen[me] = true
	:: else
	fi;
	if
	:: store.waiting > 0 && store.lock == 0 -> store.lock = w[me].lock
	:: else
	fi;
	mine = false;
	for (i : 0 .. PENDING - 1) { mine = mine || store.pending[i].who == me }
	if
	:: store.waiting > 0 && store.lock == w[me].lock ->
		w[me].took = store.waiting;
		copyCircuit(w[me].folded, store.is);
		for (j : 0 .. w[me].took - 1) { fold(w[me].folded, store.pending[j]) }
	:: else ->
		if
		:: !mine -> adopt()
		:: else
		fi
	fi
}

/* commit is the script that writes what was folded. */
inline commit() {
	if
#ifdef COMMIT_WITHOUT_LOCK
	:: true ->
#else
	:: store.lock == w[me].lock ->
#endif
		assert(w[me].folded.version >= store.is.version);   /* the store goes back in a failover alone */
		copyCircuit(store.is, w[me].folded);
		for (j : 1 .. w[me].took) {
			if
			:: store.waiting > 0 ->
				for (i : 0 .. PENDING - 2) { copyEvent(store.pending[i], store.pending[i + 1]) }
				forgetEvent(store.pending[PENDING - 1]);
				store.waiting--
			:: else
			fi
		}
		store.lock = 0
	:: else
	fi;
	w[me].took = 0; forget(w[me].folded)
}

/* die: what was on its way stays where it is. */
inline die() {
	crashes--;
	for (i : 0 .. PENDING - 1) {
		if :: store.pending[i].who == me -> store.pending[i].who = 0 :: else fi;
		if :: replica.pending[i].who == me -> replica.pending[i].who = 0 :: else fi
	}
	store.seen[me] = false; replica.seen[me] = false;
	forget(w[me].copy); forgetEvent(w[me].out); forget(w[me].folded);
	w[me].wants = 0; w[me].lock = 0; w[me].took = 0; endProbe()
}

#define free(c) (c.token == 0 || lapsed(c))

proctype Work(byte me) {
	byte i, j, t;
	bool known, mine;
end:	do
	:: atomic {
		w[me].lock == 0 && (w[me].token != 0 || w[me].copy.phase == OPEN ||
			w[me].copy.phase == HALF && free(w[me].copy) || w[me].copy.phase == CLOSED && failures > 0) ->
		if
		:: w[me].token != 0 ->            /* the probe is under way */
			if
			:: bad > 0 -> bad--; sayOfProbe(BROKE); endProbe()
			:: cancels > 0 -> cancels--; sayOfProbe(CANCELED); endProbe()
			:: renewals > 0 && w[me].deadline == given(w[me].token) ->
				renewals--; sayOfProbe(RENEW); w[me].out.is.deadline = renewed(w[me].token)
			:: crashes > 0 -> die(); goto next
			:: sayOfProbe(PASSED); endProbe()
			fi
		:: w[me].token == 0 && (w[me].copy.phase == OPEN || w[me].copy.phase == HALF && free(w[me].copy)) ->
			freshToken(t);
			say(GRANT); w[me].wants = t; w[me].out.is.token = t; w[me].out.is.deadline = given(t)
		:: w[me].token == 0 && w[me].copy.phase == CLOSED && failures > 0 ->
			failures--; say(FAILED); w[me].out.is.version = w[me].copy.version
		fi;
		freshLock(t); w[me].lock = t;
next:		t = 0; known = false; i = 0
	}
	/* The heartbeat. */
	:: d_step {
		w[me].lock == 0 && w[me].token == 0 &&
			(w[me].copy.phase == CLOSED || w[me].copy.phase == HALF && !free(w[me].copy)) &&
			(store.waiting > 0 || w[me].copy.version != store.is.version || w[me].copy.token != store.is.token ||
			w[me].copy.deadline != store.is.deadline || w[me].copy.marks != store.is.marks) ->
		freshLock(t); w[me].lock = t; append(); t = 0; known = false; i = 0; j = 0; mine = false
	}
	:: d_step { w[me].lock != 0 && w[me].took == 0 -> append(); i = 0; j = 0; mine = false }
	:: d_step { w[me].took > 0 -> commit(); i = 0; j = 0 }
	:: d_step { w[me].took > 0 && crashes > 0 -> die(); i = 0 }
	od
}

/* Whether somebody who is alive folds under the store's lock, and whether the
 * lease's probe goes on or its report is on the way. */
#define holds(n) (w[n].lock == store.lock && w[n].took > 0)
#define runs(n)  (w[n].token == store.is.token || w[n].wants == store.is.token || w[n].out.is.token == store.is.token)

/* World is what happens to the store and the clock. */
proctype World() {
	byte i;
	do
	:: d_step { store.is.token != 0 && !past[store.is.deadline] && !(runs(1) || runs(2)) ->
		past[given(store.is.token)] = true; past[store.is.deadline] = true }
	:: d_step { lapses > 0 && store.is.token != 0 && !past[store.is.deadline] && (runs(1) || runs(2)) ->
		lapses--; past[given(store.is.token)] = true; past[store.is.deadline] = true }
	:: d_step { store.lock != 0 && !(holds(1) || holds(2)) -> store.lock = 0 }
	:: d_step { expiries > 0 && store.lock != 0 && (holds(1) || holds(2)) -> expiries--; store.lock = 0 }
	:: d_step { failovers > 0 && !lags -> copyStore(replica, store); lags = true; i = 0 }
	:: d_step { lags ->
		copyStore(store, replica); failovers--; lags = false;
		forget(replica.is); replica.lock = 0; replica.waiting = 0;
		for (i : 0 .. PENDING - 1) { forgetEvent(replica.pending[i]) }
		for (i : 1 .. WORKERS) { replica.seen[i] = false }
		i = 0 }
	:: timeout -> break           /* nothing is left to happen */
	od;
	assert(store.is.phase == CLOSED)      /* the slot came back, and the circuit was probed until it closed */
}

init { atomic {
	if
	:: FAILURES == 0 ->     /* it has opened, and everybody knows */
		store.is.phase = OPEN; store.is.version = 1;
		w[1].copy.phase = OPEN; w[1].copy.version = 1; w[2].copy.phase = OPEN; w[2].copy.version = 1
	:: else
	fi;
	run Work(1); run Work(2); run World() } }

ltl slot_comes_back { [] (store.is.phase == HALF -> <> (store.is.phase != HALF)) }
ltl probed_again { [] (store.is.phase == OPEN -> <> (store.is.phase != OPEN)) }
