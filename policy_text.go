package fusebox

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseTrip reads a rule as flags and the log spell it: "streak=3",
// "count=3,within=60m", "count=5,of=10,within=60s",
// "rate=0.5,within=60s,calls=20" or "slow=0.5,limit=10s,within=60s,calls=20".
// It is the inverse of [Trip.String].
func ParseTrip(s string) (Trip, error) {
	fields := map[string]string{}
	var first string
	for i, part := range strings.Split(s, ",") {
		key, value, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found || value == "" {
			return Trip{}, &PolicyError{"trip", fmt.Sprintf("want key=value, have %q in %q", part, s)}
		}
		if _, twice := fields[key]; twice {
			return Trip{}, &PolicyError{"trip", fmt.Sprintf("%q stands twice in %q", key, s)}
		}
		if i == 0 {
			first = key
		}
		fields[key] = value
	}
	var t Trip
	var allowed []string
	switch first {
	case "streak":
		t.kind, allowed = tripStreak, []string{"streak"}
	case "count":
		t.kind, allowed = tripCount, []string{"count", "within", "of"}
	case "rate":
		t.kind, allowed = tripRate, []string{"rate", "within", "calls"}
	case "slow":
		t.kind, allowed = tripSlow, []string{"slow", "limit", "within", "calls"}
	default:
		return Trip{}, &PolicyError{"trip", fmt.Sprintf("want streak=…, count=…, rate=… or slow=… first, have %q", s)}
	}
	for _, key := range allowed {
		value, given := fields[key]
		delete(fields, key)
		if !given && key == "of" {
			continue
		}
		if !given {
			return Trip{}, &PolicyError{"trip", fmt.Sprintf("%q lacks %s=…", s, key)}
		}
		if err := t.set(key, value); err != nil {
			return Trip{}, err
		}
	}
	for key := range fields {
		return Trip{}, &PolicyError{"trip", fmt.Sprintf("%q does not go with %s in %q", key, first, s)}
	}
	var err error
	t.validate(func(field, format string, args ...any) {
		if err == nil {
			err = &PolicyError{field, fmt.Sprintf(format, args...)}
		}
	})
	return t, err
}

func (t *Trip) set(key, value string) error {
	var err error
	switch key {
	case "streak", "count", "calls":
		t.n, err = strconv.Atoi(value)
	case "of":
		t.of, err = strconv.Atoi(value)
	case "rate", "slow":
		t.ratio, err = strconv.ParseFloat(value, 64)
	case "within":
		t.within, err = time.ParseDuration(value)
	case "limit":
		t.limit, err = time.ParseDuration(value)
	}
	if err == nil {
		return nil
	}
	want := "a whole number"
	switch key {
	case "rate", "slow":
		want = "a share such as 0.5"
	case "within", "limit":
		want = "a duration such as 60s or 90m"
	}
	return &PolicyError{"trip." + key, fmt.Sprintf("want %s, have %q", want, value)}
}

// String spells the rule as [ParseTrip] reads it.
func (t Trip) String() string {
	switch t.kind {
	case tripStreak:
		return fmt.Sprintf("streak=%d", t.n)
	case tripCount:
		if t.of > 0 {
			return fmt.Sprintf("count=%d,of=%d,within=%s", t.n, t.of, shortDuration(t.within))
		}
		return fmt.Sprintf("count=%d,within=%s", t.n, shortDuration(t.within))
	case tripRate:
		return fmt.Sprintf("rate=%s,within=%s,calls=%d", formatRatio(t.ratio), shortDuration(t.within), t.n)
	case tripSlow:
		return fmt.Sprintf("slow=%s,limit=%s,within=%s,calls=%d", formatRatio(t.ratio), shortDuration(t.limit), shortDuration(t.within), t.n)
	}
	return ""
}

// Words says the rule for people: "5 failures among the last 10 results within 60s".
func (t Trip) Words() string {
	switch t.kind {
	case tripStreak:
		if t.n == 1 {
			return "the first failure"
		}
		return fmt.Sprintf("%d failures in a row", t.n)
	case tripCount:
		if t.of > 0 {
			return fmt.Sprintf("%d failures among the last %d results within %s", t.n, t.of, shortDuration(t.within))
		}
		return fmt.Sprintf("%d failures within %s", t.n, shortDuration(t.within))
	case tripRate:
		return fmt.Sprintf("%s %% failures among at least %d results within %s", formatRatio(100*t.ratio), t.n, shortDuration(t.within))
	case tripSlow:
		return fmt.Sprintf("%s %% slower than %s among at least %d results within %s",
			formatRatio(100*t.ratio), shortDuration(t.limit), t.n, shortDuration(t.within))
	}
	return ""
}

// Threshold returns the count of failures the rule needs, and whether it is
// counted (a Streak or Count) rather than a share.
func (t Trip) Threshold() (n int, counted bool) {
	return t.n, t.kind == tripStreak || t.kind == tripCount
}

// IsStreak reports whether t was made by [Streak]: over several workers it
// counts the order of completion.
func (t Trip) IsStreak() bool { return t.kind == tripStreak }

// MarshalText spells the rule as [Trip.String] does.
func (t Trip) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what [ParseTrip] reads.
func (t *Trip) UnmarshalText(b []byte) error {
	parsed, err := ParseTrip(string(b))
	if err == nil {
		*t = parsed
	}
	return err
}

// Words says the policy for people, one sentence a part.
func (p Policy) Words() []string {
	var words []string
	var trips []string
	for _, t := range p.Trip {
		trips = append(trips, t.Words())
	}
	if len(trips) > 0 {
		trips[0] = "at " + trips[0]
	}
	for _, c := range p.OnClass {
		trips = append(trips, "at once on "+string(c))
	}
	if len(trips) == 0 {
		return []string{"no circuit: nothing opens it"}
	}
	opens := "opens " + strings.Join(trips, ", or ")
	if p.Quorum > 1 {
		opens += fmt.Sprintf("; for all hosts only if at least %d of them have part in it, else for the one that failed", p.Quorum)
	}
	words = append(words, opens)
	if p.FasterThan > 0 {
		words = append(words, "a failure that took longer than "+shortDuration(p.FasterThan)+" counts as a call that worked")
	}
	if p.Overdue > 0 {
		words = append(words, "a call that has run for "+shortDuration(p.Overdue)+" counts as failed")
	}
	if p.Distinct {
		words = append(words, "repeats of one exact call by one run count once")
	}
	words = append(words, p.Cooldown.words())
	probe := fmt.Sprintf("%d probe at a time, %d success to close", p.Probe.Concurrent, p.Probe.CloseAfter)
	if p.Probe.Concurrent != 1 {
		probe = strings.Replace(probe, "probe", "probes", 1)
	}
	if p.Probe.CloseAfter != 1 {
		probe = strings.Replace(probe, "success", "successes", 1)
	}
	words = append(words, probe)
	if p.Observe {
		words = append(words, "observed only: nothing is refused")
	}
	return words
}

func (c Cooldown) words() string {
	if c.Calls > 0 {
		return fmt.Sprintf("stays open for %d refused calls", c.Calls)
	}
	s := "stays open for " + shortDuration(c.After)
	if c.Jitter > 0 {
		s += fmt.Sprintf(" plus up to %s %%", formatRatio(100*c.Jitter))
	}
	if c.Growth > 1 {
		s += fmt.Sprintf(", times %s after each failed probe", formatRatio(c.Growth))
		if c.Max > 0 {
			s += ", at most " + shortDuration(c.Max)
		}
	}
	return s
}

// policyJSON is a policy as the log keeps it.
type policyJSON struct {
	Trip       []Trip        `json:"trip,omitzero"`     // [] is not null: it means no circuit
	OnClass    []Class       `json:"on_class,omitzero"` // likewise
	FasterThan durationText  `json:"faster_than,omitzero"`
	Overdue    durationText  `json:"overdue,omitzero"`
	Distinct   bool          `json:"distinct,omitempty"`
	Cooldown   *cooldownJSON `json:"cooldown,omitempty"`
	Probe      *probeJSON    `json:"probe,omitempty"`
	Observe    bool          `json:"observe,omitempty"`
	Quorum     int           `json:"quorum,omitempty"`
	Loaded     time.Time     `json:"loaded,omitzero"`
}

type cooldownJSON struct {
	After  durationText `json:"after,omitzero"`
	Calls  int          `json:"calls,omitempty"`
	Jitter float64      `json:"jitter,omitempty"`
	Growth float64      `json:"growth,omitempty"`
	Max    durationText `json:"max,omitzero"`
}

type probeJSON struct {
	Concurrent int          `json:"concurrent,omitempty"`
	CloseAfter int          `json:"close_after,omitempty"`
	Attempts   int          `json:"attempts,omitempty"`
	Lease      durationText `json:"lease,omitzero"`
}

// MarshalJSON writes the policy in the words of the configuration file, with
// each rule as [Trip.String] spells it.
func (p Policy) MarshalJSON() ([]byte, error) {
	c, pr := p.Cooldown, p.Probe
	out := policyJSON{
		Trip: p.Trip, OnClass: p.OnClass, FasterThan: durationText(p.FasterThan), Overdue: durationText(p.Overdue),
		Distinct: p.Distinct, Observe: p.Observe, Quorum: p.Quorum, Loaded: p.Loaded,
	}
	if c != (Cooldown{}) {
		out.Cooldown = &cooldownJSON{durationText(c.After), c.Calls, c.Jitter, c.Growth, durationText(c.Max)}
	}
	if pr != (Probe{}) {
		out.Probe = &probeJSON{pr.Concurrent, pr.CloseAfter, pr.Attempts, durationText(pr.Lease)}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what [Policy.MarshalJSON] writes, and validates it.
func (p *Policy) UnmarshalJSON(b []byte) error {
	var in policyJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	q := Policy{
		Trip: in.Trip, OnClass: in.OnClass, FasterThan: time.Duration(in.FasterThan), Overdue: time.Duration(in.Overdue),
		Distinct: in.Distinct, Observe: in.Observe, Quorum: in.Quorum, Loaded: in.Loaded,
	}
	if c := in.Cooldown; c != nil {
		q.Cooldown = Cooldown{time.Duration(c.After), c.Calls, c.Jitter, c.Growth, time.Duration(c.Max)}
	}
	if pr := in.Probe; pr != nil {
		q.Probe = Probe{pr.Concurrent, pr.CloseAfter, pr.Attempts, time.Duration(pr.Lease)}
	}
	if err := q.Validate(); err != nil {
		return err
	}
	*p = q
	return nil
}

// durationText is a duration that JSON spells as "90s".
type durationText time.Duration

func (d durationText) MarshalText() ([]byte, error) {
	return []byte(shortDuration(time.Duration(d))), nil
}

func (d *durationText) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = durationText(v)
	return err
}

// shortDuration is d.String without zero parts: "1h", not "1h0m0s".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

func formatRatio(r float64) string { return strconv.FormatFloat(r, 'g', 12, 64) }
