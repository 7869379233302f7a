package stories

import (
	"fmt"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
)

// requests of the local-first story: one every five seconds.
const (
	requests = 60
	pace     = 5 * time.Second
	starts   = 5 // of a program that makes one request and ends
)

// localWorks reports whether the local model would answer request i: a laptop
// that wakes, a model that is swapped, a network that changes fail one request
// each; then the local model is stopped for a while.
func localWorks(i int) bool {
	switch {
	case i == 4 || i == 16 || i == 28:
		return false
	case i >= 40 && i < 48:
		return false
	}
	return true
}

// localNumbers is what the paid model had to answer.
type localNumbers struct {
	Calls     int `json:"calls"` // requests
	Paid      int `json:"paid_calls"`
	Opened    int `json:"opened"`           // times that the local model was taken for down
	FirstPaid int `json:"paid_first_calls"` // of programs that had only just started
}

// route sends the requests to the local model where its circuit lets them, and
// to the paid one where it does not, or where the local model fails. It returns
// who answered each: '.' the local model, '$' the paid one.
func route(p fusebox.Policy, n *localNumbers) (string, error) {
	box, c, err := newCircuit("model/local/llama3.2", p)
	if err != nil {
		return "", err
	}
	box.OnTransition(func(t fusebox.Transition) {
		if t.From == fusebox.Closed && t.To == fusebox.Open {
			n.Opened++
		}
	})
	var answered strings.Builder
	for i := range requests {
		now := began.Add(time.Duration(i) * pace)
		by := byte('$')
		if permit, err := c.AllowAt(now); err == nil {
			result := fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassTimeout}
			if localWorks(i) {
				by, result = '.', fusebox.Result{}
			}
			permit.DoneAt(now, result)
		}
		if by == '$' {
			n.Paid++
		}
		n.Calls++
		answered.WriteByte(by)
	}
	return answered.String(), nil
}

// start makes the first request of a program that knows nothing yet, and
// reports whether it goes to the paid model. A timid router uses only what has
// been seen to work.
func start(p fusebox.Policy, timid bool) (paid bool, err error) {
	_, c, err := newCircuit("model/local/llama3.2", p)
	if err != nil {
		return false, err
	}
	state := c.State()
	if timid && state.HealthAt(began) != fusebox.Up {
		return true, nil
	}
	_, err = c.AllowAt(began)
	return err != nil, nil
}

// router is one way to choose.
func router(p fusebox.Policy, timid bool) (answered string, n localNumbers, err error) {
	if answered, err = route(p, &n); err != nil {
		return "", n, err
	}
	for range starts {
		paid, err := start(p, timid)
		if err != nil {
			return "", n, err
		}
		if paid {
			n.FirstPaid++
		}
	}
	return answered, n, nil
}

func localFirst() (Story, error) {
	patient := fusebox.DefaultPolicy("model")
	patient.Trip = []fusebox.Trip{fusebox.Streak(2)}
	patient.Cooldown = fusebox.Cooldown{After: 30 * time.Second, Growth: 1}
	hasty := patient
	hasty.Trip = []fusebox.Trip{fusebox.Streak(1)}
	flapping, without, err := router(hasty, true)
	if err != nil {
		return Story{}, err
	}
	steady, with, err := router(patient, false)
	if err != nil {
		return Story{}, err
	}
	var fails strings.Builder
	for i := range requests {
		fails.WriteByte(map[bool]byte{true: ' ', false: 'x'}[localWorks(i)])
	}
	return Story{
		Title: "one failure is not an outage",
		Setting: fmt.Sprintf("A local model comes first, a paid one when it is down. It fails single requests, as when a laptop wakes, and is stopped once. "+
			"A request comes every %.0f s. And %d times a program starts, asks once, and ends.", pace.Seconds(), starts),
		Table: [][]string{{"", ". answered by the local model   $ by the paid one   x it would fail"},
			{"local", strings.TrimRight(fails.String(), " ")}, {"without", flapping}, {"with", steady}},
		Without: Side{fmt.Sprintf("%d requests paid, called down %s; %d of %d first requests paid", without.Paid, times(without.Opened), without.FirstPaid, starts), without},
		With:    Side{fmt.Sprintf("%d requests paid, called down %s; %d of %d first requests paid", with.Paid, times(with.Opened), with.FirstPaid, starts), with},
		Why:     "One failure is no measurement, and unknown is not down: it is usable.",
	}, nil
}
