// Queue is a fleet of workers behind a queue, which fusebox keeps from being held
// up by one provider that is degraded:
//
//	producer ──> asynq's queue ──> worker ──> circuit ──go──> provider
//	                  ▲                          │
//	                  └── back, with its delay ──┘ denied
//
// The queue and the circuits are on the same Redis. A job whose provider is out
// goes back at once, to come again when asking is worth it, and its worker takes
// the next one. worker.go is the recipe; the rest lets it happen and measures it:
//
//	go run .
//	go run . -guard=false
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fusebox-go/fusebox"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2) // the flags have said what is wrong
	}
	r, err := s.run(ctx)
	if err != nil {
		log.Fatal(err)
	}
	s.print(r)
}

// parse returns the scenario that a command line asks for.
func parse(args []string) (scenario, error) {
	s := scenario{calls: 25}
	s.name = fmt.Sprintf("fusebox-example-%d", time.Now().UnixNano())
	s.afterError = asynq.DefaultRetryDelayFunc
	s.look = time.Second
	s.policy = fusebox.DefaultPolicy("model")
	flags := flag.NewFlagSet("queue", flag.ContinueOnError)
	flags.StringVar(&s.redis, "redis", "redis://127.0.0.1:6379/0", "Redis or Valkey for the queue and the circuits")
	flags.BoolVar(&s.guard, "guard", true, "deny jobs whose provider is out; false = only look on")
	flags.IntVar(&s.workers, "workers", 3, "workers")
	flags.IntVar(&s.atOnce, "at-once", 2, "jobs that each worker has under way")
	flags.IntVar(&s.healthy, "healthy", 200, "jobs for the provider that is well")
	flags.IntVar(&s.degraded, "degraded", 100, "jobs for the provider that is degraded until those are done")
	flags.DurationVar(&s.answers, "answers", 20*time.Millisecond, "how long a good answer takes")
	flags.DurationVar(&s.hangs, "hangs", 2*time.Second, "how long a bad one takes")
	flags.DurationVar(&s.policy.Cooldown.After, "cooldown", 10*time.Second, "how long the circuit stays open before it is probed")
	err := flags.Parse(args)
	s.limit = 5 * s.hangs
	s.policy.Probe.Lease = 2 * s.limit // jobs that are denied meanwhile come back when it is over
	return s, err
}

func (s scenario) print(r report) {
	title := "with the guard"
	if !s.guard {
		title = "without the guard"
	}
	fmt.Printf("%s: %d workers with %d jobs at once, a bad answer takes %v\n", title, s.workers, s.atOnce, s.hangs)
	fmt.Printf("healthy provider   %d jobs done in %.1f s, %.1f a second\n", s.healthy, r.healthyIn.Seconds(), float64(s.healthy)/r.healthyIn.Seconds())
	fmt.Printf("degraded provider  %d calls hung meanwhile, %d times a job went back at once\n", r.hung, r.denied)
	fmt.Printf("once it was well   all %d of its jobs done, %.1f s after the beginning\n", s.degraded, r.allIn.Seconds())
}
