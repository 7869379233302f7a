package fusebox_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fusebox-go/fusebox"
)

// open returns a box for an example: never a failing one.
func open(cfg fusebox.Config) *fusebox.Box {
	box, err := fusebox.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	return box
}

func named(box *fusebox.Box, name string) *fusebox.Circuit {
	c, err := box.Circuit(name)
	if err != nil {
		log.Fatal(err)
	}
	return c
}

// A tool call under the whole guard takes three lines: the circuit of the
// dependency, the run that asks, and the call.
func ExampleCall() {
	box := open(fusebox.Config{})
	ctx := context.Background()
	lookUp := func(context.Context) (string, error) { return "Ada Lovelace", nil }

	crm, err := box.Circuit("tool/crm/lookup")
	run := box.Run("ticket 4521")
	name, err := fusebox.Call(ctx, run, crm, map[string]int{"id": 4521}, lookUp)

	fmt.Println(name, err)
	fmt.Println(run.End())
	// Output:
	// Ada Lovelace <nil>
	// complete
}

// A dependency that fails now and then: the retry absorbs it, and the circuit
// hears of one call that worked, after two attempts.
func ExampleCall_flakyDependency() {
	box := open(fusebox.Config{Retry: fusebox.Retry{
		Attempts: 3, Base: time.Millisecond, Max: 10 * time.Millisecond,
		Budget: fusebox.Budget{Ratio: 0.2, PerMinute: 10},
	}})
	box.OnEvidence(func(e fusebox.Event) { fmt.Println(e.Outcome, "after", e.Attempts, "attempts") })
	search := named(box, "tool/search")

	calls := 0
	answer, err := fusebox.Call(context.Background(), box.Run("r"), search, "fuses", func(context.Context) (string, error) {
		if calls++; calls == 1 {
			return "", fusebox.Fail(fusebox.ClassServer, errors.New("502 Bad Gateway"))
		}
		return "3 results", nil
	})
	fmt.Println(answer, err)
	// Output:
	// success after 2 attempts
	// 3 results <nil>
}

// An agent repeats one call that cannot work. Three reach the CRM; its circuit
// stays closed, because the CRM is well; what the agent reads instead changes
// until it stops.
func ExampleCall_thrash() {
	box := open(fusebox.Config{})
	crm, run := named(box, "tool/crm_lookup"), box.Run("agent")
	reached := 0
	for range 6 {
		_, err := fusebox.Call(context.Background(), run, crm, map[string]int{"id": 4521}, func(context.Context) (string, error) {
			reached++
			return "", fusebox.Reject(errors.New("id must be a string"))
		})
		if denial := fusebox.AsDenial(err); denial != nil {
			fmt.Println(denial.Instruction())
		}
	}
	fmt.Println(reached, "calls reached the CRM, its circuit is", crm.Status().Phase)
	// Output:
	// crm_lookup has already failed 3 times with these exact arguments (the last: id must be a string); repeating it will not help. Change the arguments or your approach, or report what you could not do.
	// This exact call of crm_lookup stays refused: the same arguments fail the same way. Other arguments are not refused. Go on with what you have, or say in your answer what you could not find out.
	// Stop: this exact call of crm_lookup was refused 3 times and will not be made. Go on with what you have, or report that it failed and end here. A run that ignores this is stopped.
	// 3 calls reached the CRM, its circuit is closed
}

// Five models judge an answer and three votes are enough. Two of them are not
// asked, because their circuits are open: the result stands, and says that it
// is thin.
func ExampleRun_Quorum() {
	box := open(fusebox.Config{})
	named(box, "model/judge/2").Trip("outage")
	named(box, "model/judge/4").Trip("outage")

	run := box.Run("score 17")
	votes := run.Quorum(3)
	for i := range 5 {
		judge := named(box, fmt.Sprintf("model/judge/%d", i+1))
		_, err := fusebox.Call(context.Background(), run, judge, "the answer", func(context.Context) (int, error) { return 8, nil })
		votes.Add(err)
	}
	tally := votes.Tally()
	fmt.Println(tally)
	fmt.Println("enough:", tally.Met(), "thin:", tally.Thin(), "run:", run.End())
	// Output:
	// 3 of 5 answered, 2 denied (need 3)
	// enough: true thin: true run: degraded
}

// message is one of a queue, and what became of it.
type message struct{ id string }

func (m message) ack()                     { fmt.Println(m.id, "done") }
func (m message) nack(delay time.Duration) { fmt.Println(m.id, "given back for", delay) }

// A worker of a queue whose model is out gives its message back at once, with
// the denial's delay, instead of holding it through retries that are bound to
// fail.
func ExampleDenial_queueWorker() {
	box := open(fusebox.Config{})
	model := named(box, "model/openai/gpt-5")
	summarise := func(context.Context) (string, error) { return "a summary", nil }

	work := func(m message) {
		_, err := fusebox.Call(context.Background(), box.Run(m.id), model, m.id, summarise)
		if denial := fusebox.AsDenial(err); denial != nil {
			m.nack(denial.RetryAfter().Round(time.Minute))
			return
		}
		m.ack()
	}
	work(message{"message 1"})
	model.Throttle(time.Now().Add(5*time.Minute), "quota")
	work(message{"message 2"})
	// Output:
	// message 1 done
	// message 2 given back for 5m0s
}

// Where the result comes from elsewhere, as in a proxy, asking and reporting
// are two steps.
func ExampleRun_Allow() {
	box := open(fusebox.Config{})
	run, tool := box.Run("session 9"), named(box, "tool/files/read")

	permit, err := run.Allow(context.Background(), tool, map[string]string{"path": "/etc/hosts"})
	if err != nil {
		fmt.Println(err)
		return
	}
	permit.Done(fusebox.Result{}) // when the answer has come

	fmt.Println(run.Outcome())
	// Output: complete
}
