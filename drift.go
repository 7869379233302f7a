package fusebox

import (
	"math"
	"sync"
)

// Drift notices that a dependency fails more often than it used to, though too
// rarely to open its circuit: retries absorb these failures, and no circuit
// shows them. It is advice and denies nothing. The zero Drift is ready to use;
// it is safe for concurrent use.
//
// It is a CUSUM (Page 1954) on the share of failed attempts: the evidence for
// four times the odds of failure over the share that is normal for this
// dependency. The normal share is learnt from the first 200 attempts and then
// followed slowly, while nothing is suspected.
type Drift struct {
	mu        sync.Mutex
	attempts  int     // seen, up to driftMemory
	share     float64 // of failed attempts that is normal
	sum       float64 // evidence, as a log likelihood ratio
	degrading bool
}

const (
	driftLearning = 200  // attempts before anything is said
	driftMemory   = 2000 // attempts over which the normal share is averaged
	driftFloor    = 0.02 // a normal share below this is taken for this: one failure more is no drift
	driftOdds     = 4
)

// driftAlarm is the evidence that raises the advice: by chance it is reached
// once in 100,000 attempts or more.
var driftAlarm = math.Log(1e5)

// Add takes in a call's attempts and reports whether the answer of
// [Drift.Degrading] changed.
func (d *Drift) Add(failed, worked int) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.degrading
	for range failed {
		d.add(1)
	}
	for range worked {
		d.add(0)
	}
	return d.degrading != was
}

func (d *Drift) add(failed float64) {
	if d.attempts >= driftLearning {
		normal := max(d.share, driftFloor)
		raised := driftOdds * normal / (1 + (driftOdds-1)*normal)
		if failed > 0 {
			d.sum += math.Log(raised / normal)
		} else {
			d.sum += math.Log((1 - raised) / (1 - normal))
		}
		d.sum = min(max(d.sum, 0), driftAlarm)
		switch d.sum {
		case driftAlarm:
			d.degrading = true
		case 0:
			d.degrading = false
		}
	}
	if d.sum < driftAlarm/2 && !d.degrading {
		d.attempts = min(d.attempts+1, driftMemory)
		d.share += (failed - d.share) / float64(d.attempts)
	}
}

// Degrading reports whether the dependency fails more often than is normal for
// it. It ends when the share of failures has been normal again for a while.
func (d *Drift) Degrading() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.degrading
}
