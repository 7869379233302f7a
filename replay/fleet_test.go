package replay

import (
	"math"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// workers is the story of the worker fleet: each replica has a circuit of its
// own, that opens at three failures in a row and is probed after two minutes.
func workers(t *testing.T, change func(p *fusebox.Policy)) Fleet {
	p := policy(t, func(p *fusebox.Policy) {
		p.Cooldown.After = 2 * time.Minute
		if change != nil {
			change(p)
		}
	}, "streak=3")
	return Fleet{Replicas: 10, Rate: 1, Before: time.Minute, Outage: 10 * time.Minute,
		Latency: 200 * time.Millisecond, DownLatency: 200 * time.Millisecond, Policy: p, Seed: 1}
}

func jitter(j float64) func(p *fusebox.Policy) {
	return func(p *fusebox.Policy) { p.Cooldown.Jitter = j }
}

func TestFleetThresholdMultipliesWithTheReplicas(t *testing.T) {
	for seed := range uint64(20) {
		f := workers(t, jitter(0.2))
		f.Seed = seed
		s := f.Simulate()
		// Two failures are needed before the third; what is in flight when it
		// comes are a fifth of a call a replica on average.
		if inFlight := s.CallsDownBeforeOpen - 30; inFlight < 0 || inFlight > 12 {
			t.Errorf("seed %d: %d calls before the circuits opened, want 30 and a few in flight", seed, s.CallsDownBeforeOpen)
		}
		if s.Detect == nil || *s.Detect <= 0 || *s.Detect > 30 {
			t.Errorf("seed %d: detected after %v", seed, s.Detect)
		}
		// A circuit opens at once and is then probed at least every 144 s and a
		// little, at most every 120 s; each failed probe is one call.
		failed := s.CallsDown - s.CallsDownBeforeOpen
		if failed < 30 || failed > 50 {
			t.Errorf("seed %d: %d failed probes, want 3 to 5 a replica", seed, failed)
		}
		if s.Probes != failed+10 {
			t.Errorf("seed %d: %d probes, want the failed %d and one a replica that closes", seed, s.Probes, failed)
		}
		if s.Recover == nil || *s.Recover < 1 || *s.Recover > 160 {
			t.Errorf("seed %d: recovered after %v s, want less than a cooldown and a call's gap", seed, s.Recover)
		}
	}
}

func TestFleetSharedThresholdDoesNotMultiply(t *testing.T) {
	for _, replicas := range []int{1, 10, 100} {
		f := workers(t, nil)
		f.Replicas, f.Shared, f.Propagation = replicas, true, 5*time.Millisecond
		s := f.Simulate()
		// In flight: what the fleet begins in a call's duration and the time
		// until the replicas know, five times its mean at most.
		most := 3 + int(math.Ceil(5*(1+float64(replicas)*0.205)))
		if s.CallsDownBeforeOpen < 3 || s.CallsDownBeforeOpen > most {
			t.Errorf("%d replicas: %d calls before the circuit opened, want 3 and what was in flight, at most %d", replicas, s.CallsDownBeforeOpen, most)
		}
		if s.ProbesPeak != 1 {
			t.Errorf("%d replicas: %d probes within a second, want one at a time", replicas, s.ProbesPeak)
		}
		if s.CallsDown-s.CallsDownBeforeOpen != s.Probes-1 {
			t.Errorf("%d replicas: %d calls while down after %d before the opening, with %d probes", replicas, s.CallsDown, s.CallsDownBeforeOpen, s.Probes)
		}
	}
}

func TestFleetPropagationLetsCallsThrough(t *testing.T) {
	f := workers(t, nil)
	f.Replicas, f.Rate, f.Shared = 100, 10, true
	quick := f.Simulate()
	f.Propagation = time.Second
	slow := f.Simulate()
	if more := slow.CallsDownBeforeOpen - quick.CallsDownBeforeOpen; more < 800 || more > 1200 {
		t.Errorf("a second of propagation lets %d calls more through, want about 1000", more)
	}
	if d := *slow.Detect - *quick.Detect; math.Abs(d-1) > 1e-9 {
		t.Errorf("and delays detection by %v s, want 1", d)
	}
}

func TestFleetJitterSpreadsProbes(t *testing.T) {
	f := workers(t, nil)
	f.Replicas, f.Rate = 200, 10
	together := f.Simulate().ProbesPeak
	f.Policy.Cooldown.Jitter = 0.5
	if spread := f.Simulate().ProbesPeak; spread*4 > together {
		t.Errorf("jitter brings the peak from %d probes a second to %d, want less than a quarter", together, spread)
	}
}

func TestFleetOverdueCountsBeforeTheEnd(t *testing.T) {
	f := workers(t, nil)
	f.Replicas, f.DownLatency = 100, 30*time.Second
	waits := f.Simulate()
	f.Policy.Overdue = 2 * time.Second
	counts := f.Simulate()
	if waits.CallsDownBeforeOpen < 3000 || counts.CallsDownBeforeOpen > 700 {
		t.Errorf("%d calls wait for their end, %d where overdue calls count", waits.CallsDownBeforeOpen, counts.CallsDownBeforeOpen)
	}
}

func TestFleetIsDeterministic(t *testing.T) {
	f := workers(t, jitter(0.2))
	for _, f.Shared = range []bool{false, true} {
		a, b := f.Simulate(), f.Simulate()
		if string(a.AppendLine(nil)) != string(b.AppendLine(nil)) {
			t.Errorf("shared %v: %+v, and again %+v", f.Shared, a, b)
		}
	}
	other := f
	other.Seed++
	a, b := f.Simulate(), other.Simulate()
	if string(a.AppendLine(nil)) == string(b.AppendLine(nil)) {
		t.Errorf("another seed gives the same: %+v", a)
	}
}

func TestFleetThatDoesNotNoticeTheOutage(t *testing.T) {
	f := workers(t, nil)
	f.Rate, f.Outage = 0.01, 30*time.Second
	if s := f.Simulate(); s.Detect != nil {
		t.Errorf("detected after %v s, want null: hardly a replica makes three calls", *s.Detect)
	}
	f.Policy.Trip = nil
	f.Rate = 1
	s := f.Simulate()
	if s.Probes != 0 || s.CallsDown != s.CallsDownBeforeOpen || s.CallsDown < 200 {
		t.Errorf("without a rule: %+v", s)
	}
}

func TestFleetThatCannotRecover(t *testing.T) {
	f := workers(t, func(p *fusebox.Policy) { p.Overdue = 100 * time.Millisecond }) // less than any call takes
	f.Rate = 0.1
	if s := f.Simulate(); s.Probes < 1000 || s.Recover == nil {
		t.Errorf("%+v, want probes for a day", s)
	}
	f.Policy.Cooldown.After = 48 * time.Hour
	if s := f.Simulate(); s.Recover != nil {
		t.Errorf("recovered after %v s, want null: the circuits stay open for two days", *s.Recover)
	}
}

func TestFleetSummaryJSON(t *testing.T) {
	s := FleetSummary{CallsDown: 71, CallsDownBeforeOpen: 31, Probes: 50, ProbesPeak: 3, Detect: seconds(25e8), Recover: seconds(10025e7)}
	want := `{"summary":{"calls_down":71,"calls_down_before_open":31,"probes":50,"probes_peak_1s":3,"detect_s":2.5,"recover_s":100.25}}` + "\n"
	if got := string(s.AppendLine(nil)); got != want {
		t.Errorf("got %swant %s", got, want)
	}
}

func TestPeak(t *testing.T) {
	for _, test := range []struct {
		times []int64
		want  int
	}{
		{nil, 0}, {[]int64{5}, 1}, {[]int64{10, 0}, 1}, {[]int64{9, 0, 4}, 3}, {[]int64{0, 1, 2, 11, 12, 20, 21, 21}, 4},
	} {
		if got := peak(test.times, 10); got != test.want {
			t.Errorf("%v: got %d, want %d", test.times, got, test.want)
		}
	}
}

// BenchmarkFleet is the size that a person waits for: 10,000 replicas.
func BenchmarkFleet(b *testing.B) {
	f := Fleet{Replicas: 10_000, Rate: 1, Before: time.Minute, Outage: 10 * time.Minute, Latency: 200 * time.Millisecond, DownLatency: 200 * time.Millisecond,
		Policy: fusebox.Policy{
			Trip:     []fusebox.Trip{fusebox.Streak(3)},
			Cooldown: fusebox.Cooldown{After: 2 * time.Minute, Jitter: 0.2},
			Probe:    fusebox.Probe{Concurrent: 1, CloseAfter: 1},
		}}
	for name, shared := range map[string]bool{"local": false, "shared": true} {
		b.Run(name, func(b *testing.B) {
			f.Shared = shared
			for b.Loop() {
				f.Simulate()
			}
		})
	}
}
