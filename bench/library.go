package main

import (
	"context"
	"errors"
	"time"
)

// rule is what opens a circuit. Libraries name them differently.
type rule string

const (
	streak rule = "streak" // limit failures in a row
	count  rule = "count"  // limit failures within a minute
	of     rule = "of"     // limit failures among the last 2 x limit calls
	rate   rule = "rate"   // half of at least limit calls within 10 s
	slow   rule = "slow"   // half of at least limit calls within 10 s took longer than a second
)

var rules = []rule{streak, count, of, rate, slow}

// What the rules and circuits of all libraries have in common.
const (
	countWindow = time.Minute
	rateWindow  = 10 * time.Second
	rateShare   = 0.5
	cooldown    = 30 * time.Second
)

// circuit is one circuit of a library.
type circuit interface {
	// loop makes n calls, as the library's documents show it, and returns how
	// many were refused. Call i returns results[i % len(results)]. It is what is
	// timed, so each library has its own, with nothing in between.
	loop(n int, results []error) (refused int)

	// call makes one call of f for a caller with ctx, and returns f's error or
	// the refusal.
	call(ctx context.Context, f func(context.Context) error) error

	// refused reports whether err is a refusal.
	refused(err error) bool
}

// library is a way of using a library.
type library struct {
	name   string
	module string // where its version is found

	// open returns a closed circuit that opens by the rule at limit failures,
	// each with the same cooldown and one probe, where these can be said; nil if
	// the library has no such rule.
	open func(r rule, limit int) circuit
}

// libraries are this one, in its two ways of use, and its peers.
var libraries = []library{
	fuseboxByHand, fuseboxDo, fuseboxStored,
	gobreakerExecute, gobreakerByHand, failsafeByHand, failsafeRun, eapache, rubyist, goZero, aegis, hystrixDo,
}

func ours(l library) bool { return l.module == fuseboxModule }

// errBroken is how a call fails.
var errBroken = errors.New("broken")
