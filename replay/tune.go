package replay

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Target is how many false opens are few enough.
type Target struct {
	Opens float64
	Per   time.Duration
}

// month is the time for which false opens are counted.
const month = 30 * 24 * time.Hour

// monthly is the target for a month.
func (t Target) monthly() float64 { return t.Opens * float64(month) / float64(t.Per) }

// TuneOptions say what candidates are compared by.
type TuneOptions struct {
	Target Target
	Within time.Duration  // window of the candidates that have one
	Trips  []fusebox.Trip // compared besides; no formula is known for them
}

// Tuning is what a circuit's evidence says of thresholds.
type Tuning struct {
	Circuit    string      `json:"circuit"`
	Normal     Normal      `json:"normal"`
	Incidents  []Incident  `json:"incidents"`
	Candidates []Candidate `json:"candidates"`
	Smallest   []string    `json:"smallest"` // candidate of each family that meets the target
	TooFew     []string    `json:"too_few"`  // what the data do not suffice for
}

// Normal is operation outside of the incidents.
type Normal struct {
	Seconds       float64 `json:"seconds"`
	Calls         int64   `json:"calls"` // results that worked or failed
	CallsPerS     float64 `json:"calls_per_s"`
	Failures      int64   `json:"failures"`
	Share         float64 `json:"share"`     // of failures
	ShareLow      float64 `json:"share_low"` // with 95 % confidence
	ShareHigh     float64 `json:"share_high"`
	LongestStreak int     `json:"longest_streak"`
	LargestCount  int     `json:"largest_count"` // of failures within the window
	WindowS       float64 `json:"window_s"`
}

// Incident is a time in which failures were far more frequent than normally:
// from its first failure to its last.
type Incident struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Calls    int64     `json:"calls"`
	Failures int64     `json:"failures"`
}

// Candidate is a rule and what it would do. Numbers for 30 days are null where
// no formula is known or the log holds no normal operation.
type Candidate struct {
	Trip          string   `json:"trip"`
	Formula       *float64 `json:"false_opens_30d"`          // expected, if calls fail independently
	Replayed      *float64 `json:"false_opens_30d_replayed"` // as in the log
	FalseOpens    int      `json:"false_opens"`              // seen in the log
	Detect        *float64 `json:"detect_s"`                 // until a total outage is seen, by formula; null also if it never is
	Calls         int      `json:"detect_calls"`             // that it takes; 0 = no formula, or never
	Detected      int      `json:"incidents_detected"`       // of those in the log
	DetectInLog   *float64 `json:"detect_s_replayed"`        // mean over these
	FailuresInLog *float64 `json:"detect_calls_replayed"`    // failed calls until then, mean
	Meets         bool     `json:"meets_target"`

	family    string
	threshold int
}

// thresholds are those that candidates of a family have.
var thresholds = []int{2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20}

// families of rules, by what a threshold makes of them.
var families = []struct {
	name  string
	trip  func(k int, within time.Duration) fusebox.Trip
	apart func(p, rate float64, k int, within time.Duration) float64 // seconds between false opens
}{
	{"streak",
		func(k int, _ time.Duration) fusebox.Trip { return fusebox.Streak(k) },
		func(p, rate float64, k int, _ time.Duration) float64 { return StreakCalls(p, k) / rate }},
	{"of",
		func(k int, within time.Duration) fusebox.Trip { return fusebox.Count(k, within).Of(2 * k) },
		func(p, rate float64, k int, _ time.Duration) float64 { return OfCalls(p, k, 2*k) / rate }},
	{"count",
		func(k int, within time.Duration) fusebox.Trip { return fusebox.Count(k, within) },
		func(p, rate float64, k int, within time.Duration) float64 {
			return WithinSeconds(p, rate, k, within.Seconds())
		}},
}

// trial is a candidate under replay: the opens of each circuit.
type trial struct {
	candidate Candidate
	trip      fusebox.Trip
	opens     map[string][]int64
}

// Tune compares candidates on the log, for each circuit in name order. The
// policy of the options says everything but the rules, and failures of no class
// open at once: it is thresholds that are compared. It, or Replay, can be called
// once.
func (l *Log) Tune(o TuneOptions) ([]Tuning, error) {
	if len(l.circuits) == 0 {
		l.circuit(l.options.Circuit)
	}
	trials := o.trials()
	watch, histories := l.watcher()
	engines := []*engine{watch}
	for i := range trials {
		engines = append(engines, trials[i].engine())
	}
	for _, name := range l.circuits {
		p, err := l.options.Policy(name)
		if err != nil {
			return nil, err
		}
		p.OnClass = nil
		for i, e := range engines {
			p.Trip = nil
			if i > 0 {
				p.Trip = []fusebox.Trip{trials[i-1].trip}
			}
			e.add(name, p, seedFor(l.options.Seed, name))
		}
	}
	if err := l.run(engines...); err != nil {
		return nil, err
	}
	names := slices.Sorted(slices.Values(l.circuits))
	tunings := make([]Tuning, 0, len(names))
	for _, name := range names {
		tunings = append(tunings, o.tuning(name, histories[l.names[name]], trials))
	}
	return tunings, nil
}

func (o *TuneOptions) trials() []trial {
	var trials []trial
	add := func(c Candidate, t fusebox.Trip) {
		c.Trip = t.String()
		trials = append(trials, trial{c, t, map[string][]int64{}})
	}
	for _, f := range families {
		for _, k := range thresholds {
			add(Candidate{family: f.name, threshold: k}, f.trip(k, o.Within))
		}
	}
	for _, t := range o.Trips {
		add(Candidate{}, t)
	}
	return trials
}

// engine replays the trial and notes when circuits open.
func (t *trial) engine() *engine {
	return newEngine(func(tr fusebox.Transition) error {
		if tr.From == fusebox.Closed && tr.To == fusebox.Open {
			t.opens[tr.Circuit] = append(t.opens[tr.Circuit], tr.At.UnixNano())
		}
		return nil
	})
}

// watcher replays without a rule, and keeps what each circuit's results were.
func (l *Log) watcher() (*engine, []*history) {
	histories := make([]*history, len(l.circuits))
	votes := make([]uint64, len(l.circuits))
	for i := range histories {
		histories[i] = &history{}
	}
	e := newEngine(nil)
	e.reported = func(circuit int32, at int64) {
		s := &e.circuits[circuit].state
		if s.Votes != votes[circuit] { // it is the fold that says what counts, and as what
			votes[circuit] = s.Votes
			histories[circuit].add(at, s.Streak > 0)
		}
	}
	return e, histories
}

// tuning says what the trials came to for one circuit.
func (o *TuneOptions) tuning(name string, h *history, trials []trial) Tuning {
	incidents := h.incidents()
	t := Tuning{Circuit: name, Normal: o.normal(h, incidents), Incidents: []Incident{}, Smallest: []string{}, TooFew: []string{}}
	for _, s := range incidents {
		t.Incidents = append(t.Incidents, Incident{
			From: moment(h.failures[s.from].at), To: moment(h.failures[s.to].at),
			Calls: h.calls(s), Failures: int64(s.to - s.from + 1),
		})
	}
	for i := range trials {
		c := trials[i].candidate
		o.expect(&c, &t.Normal)
		c.count(h, incidents, trials[i].opens[name], t.Normal.Seconds)
		c.Meets = o.meets(&c, &t.Normal)
		t.Candidates = append(t.Candidates, c)
	}
	for _, f := range families {
		i := slices.IndexFunc(t.Candidates, func(c Candidate) bool { return c.family == f.name && c.Meets })
		if i >= 0 {
			t.Smallest = append(t.Smallest, t.Candidates[i].Trip)
		}
	}
	t.TooFew = append(t.TooFew, o.tooFew(&t)...)
	return t
}

func (o *TuneOptions) normal(h *history, incidents []stretch) Normal {
	n := Normal{Seconds: h.seconds(incidents), WindowS: o.Within.Seconds()}
	n.Failures, n.Calls = h.normal(incidents)
	if n.Seconds > 0 {
		n.CallsPerS = float64(n.Calls) / n.Seconds
	}
	if n.Calls > 0 {
		n.Share = float64(n.Failures) / float64(n.Calls)
	}
	n.ShareLow, n.ShareHigh = wilson(n.Failures, n.Calls)
	n.LongestStreak = h.longestStreak(incidents)
	n.LargestCount = h.largestCount(incidents, int64(o.Within))
	return n
}

// expect fills in what the formulas say.
func (o *TuneOptions) expect(c *Candidate, n *Normal) {
	if c.family == "" || n.CallsPerS == 0 {
		return
	}
	c.Formula = o.falseOpens(c, n.Share, n.CallsPerS)
	if c.family != "streak" && float64(c.threshold-1)/n.CallsPerS > o.Within.Seconds() {
		return // so many calls do not fit into the window
	}
	c.Calls = c.threshold
	detect := float64(c.threshold) / n.CallsPerS
	c.Detect = &detect
}

// falseOpens is how many a month has, where a share p of calls fails.
func (o *TuneOptions) falseOpens(c *Candidate, p, rate float64) *float64 {
	opens := 0.0
	if p > 0 {
		p = min(p, 1-1e-9)
		for _, f := range families {
			if f.name == c.family {
				opens = month.Seconds() / f.apart(p, rate, c.threshold, o.Within)
			}
		}
	}
	return &opens
}

// count fills in what the replay showed.
func (c *Candidate) count(h *history, incidents []stretch, opens []int64, normal float64) {
	var delay, failed float64
	detected := make([]bool, len(incidents))
	for _, at := range opens {
		i := slices.IndexFunc(incidents, func(s stretch) bool { return h.within(s, at) })
		switch {
		case i < 0:
			c.FalseOpens++
		case !detected[i]:
			detected[i] = true
			c.Detected++
			first := incidents[i].from
			delay += float64(at-h.failures[first].at) / 1e9
			for _, f := range h.failures[first : incidents[i].to+1] {
				if f.at <= at {
					failed++
				}
			}
		}
	}
	if c.Detected > 0 {
		delay /= float64(c.Detected)
		failed /= float64(c.Detected)
		c.DetectInLog, c.FailuresInLog = &delay, &failed
	}
	if normal > 0 {
		replayed := float64(c.FalseOpens) * month.Seconds() / normal
		c.Replayed = &replayed
	}
}

// meets reports whether the candidate sees an outage at all, and false opens
// are few enough, by formula and by replay.
// The formula is asked with the largest share of failures that the data leave
// possible; in the log as many are forgiven as the target allows for its time.
func (o *TuneOptions) meets(c *Candidate, n *Normal) bool {
	if n.CallsPerS == 0 {
		return false
	}
	if c.family != "" && (c.Detect == nil || *o.falseOpens(c, n.ShareHigh, n.CallsPerS) > o.Target.monthly()) {
		return false
	}
	return float64(c.FalseOpens) <= o.Target.monthly()*n.Seconds/month.Seconds()
}

// tooFew says what the data do not suffice for.
func (o *TuneOptions) tooFew(t *Tuning) []string {
	n := &t.Normal
	var few []string
	if n.Seconds <= 0 {
		return append(few, "there is no time of normal operation in the log: nothing can be said of false opens")
	}
	if n.Failures < 10 {
		few = append(few, fmt.Sprintf("%d failures in %d calls of normal operation: their share may be anything from %s to %s; candidates are held to the larger",
			n.Failures, n.Calls, Percent(n.ShareLow), Percent(n.ShareHigh)))
	}
	// Of what was never seen in a time, three a time at most are usual, with 95 % confidence.
	if most := 3 * month.Seconds() / n.Seconds; most > o.Target.monthly() {
		few = append(few, fmt.Sprintf("%.2g days of normal operation: no false open in them shows only that there are less than %.2g in 30 days; for the target the formula has to be trusted, which takes failures to be independent",
			n.Seconds/86400, most))
	}
	if len(t.Incidents) == 0 {
		few = append(few, "no incident in the log: how soon an outage is seen is by formula, for one in which every call fails")
	}
	for i := range t.Candidates {
		c := &t.Candidates[i]
		if c.Formula == nil {
			continue
		}
		if expected := *c.Formula * n.Seconds / month.Seconds(); float64(c.FalseOpens) > 3+3*expected {
			few = append(few, fmt.Sprintf("%s opened falsely %d times, where %.2g were to be expected: failures come in clusters, so trust the replay and not the formula",
				c.Trip, c.FalseOpens, expected))
			break
		}
	}
	return few
}

// Percent is a share for people, with two digits that count: "0.51 %", "100 %".
func Percent(share float64) string {
	digits := 2
	if share >= 0.995 { // two would make an exponent of it
		digits = 3
	}
	return strconv.FormatFloat(100*share, 'g', digits, 64) + " %"
}
