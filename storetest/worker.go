package storetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// workerVariable tells a process that it is a worker, and what to do.
const workerVariable = "FUSEBOX_STORETEST_WORKER"

// task is what a worker process does with the store at an address.
type task struct {
	Address string
	Do      string // report, probe, take, speak or share
	Worker  string
	Policy  fusebox.Policy
	Marker  string // probe, share: a directory in which the one that may leaves its mark
	N       int    // report, probe, share: how often
}

// Worker makes this process a worker of the suite, if it was started as one:
// then it does not return. TestMain calls it first.
func Worker(open func(address string) (fusebox.Store, error)) {
	text := os.Getenv(workerVariable)
	if text == "" {
		return
	}
	var w worker
	err := json.Unmarshal([]byte(text), &w.task)
	if err == nil {
		w.store, err = open(w.Address)
	}
	if err == nil {
		err = w.work()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker", w.Worker+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type worker struct {
	task
	store fusebox.Store
}

func (w *worker) work() error {
	switch w.Do {
	case "report":
		return w.report()
	case "probe":
		return w.probe()
	case "take":
		return w.take()
	case "speak":
		return w.speak()
	case "share":
		return w.share()
	}
	return fmt.Errorf("no such task: %q", w.Do)
}

func (w *worker) apply(events ...fusebox.Event) (fusebox.State, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return w.store.Apply(ctx, name, w.Policy, events...)
}

// report reports numbered failures and prints each number once the store has it.
func (w *worker) report() error {
	for i := range w.N {
		e := failure(ago(0))
		e.Worker, e.Call = w.Worker, strconv.Itoa(i)
		if _, err := w.apply(e); err != nil {
			return err
		}
		fmt.Println(i)
	}
	return nil
}

// probe takes the probe's lease again and again and gives it back undecided.
// While it holds it, nobody else may.
func (w *worker) probe() error {
	for taken := 0; taken < w.N; {
		token := fmt.Sprint(w.Worker, "-", time.Now().UnixNano())
		state, err := w.apply(lease(token, ago(0), ago(-time.Minute)))
		if err != nil {
			return err
		}
		if !state.HasLease(token) {
			continue
		}
		taken++
		if err := w.alone(); err != nil {
			return err
		}
		if _, err := w.apply(verdict(fusebox.Event{At: ago(0), Outcome: fusebox.Canceled}, token, state.Version)); err != nil {
			return err
		}
		fmt.Println(taken)
	}
	return nil
}

// alone leaves a mark and removes it: an error means that somebody else had.
func (w *worker) alone() error {
	mark := filepath.Join(w.Marker, "mark")
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("somebody else is at it: %w", err)
	}
	f.Close()
	return os.Remove(mark)
}

// share takes the only share again and again and gives it back. While it holds
// it, nobody else may.
func (w *worker) share() error {
	sharer, ok := w.store.(fusebox.Sharer)
	if !ok {
		return errors.New("the store is no Sharer")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	claim := fusebox.Claim{Owner: w.Worker, Limit: 1, Need: 1, For: time.Minute}
	for taken := 0; taken < w.N; {
		claim.Need = 1
		got, err := sharer.Share(ctx, thing, claim)
		if err != nil {
			return err
		}
		if got.Held == 0 {
			continue
		}
		taken++
		if err := w.alone(); err != nil {
			return err
		}
		claim.Need = 0
		if _, err := sharer.Share(ctx, thing, claim); err != nil {
			return err
		}
		fmt.Println(taken)
	}
	return nil
}

// take takes the lease for half a second, says so, and waits to be killed.
func (w *worker) take() error {
	state, err := w.apply(lease(w.Worker, ago(0), ago(-500*time.Millisecond)))
	if err != nil {
		return err
	}
	fmt.Println(state.HasLease(w.Worker))
	select {}
}

// speak reports what it is told to on standard input, an event a line, and
// prints the phase after each.
func (w *worker) speak() error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		e, err := fusebox.ParseEvent(in.Bytes())
		if err != nil {
			return err
		}
		state, err := w.apply(e)
		if err != nil {
			return err
		}
		fmt.Println(state.Phase)
	}
	return in.Err()
}
