package replay

import "slices"

// joined makes one call of the two records that a circuit writes of a call
// that was counted before its end: the first tells that it was overdue, the
// second of its end. They began at the same instant, so that they come one
// after the other, but for what else began then.
type joined struct {
	calls calls
	held  []call // began at one instant
	ahead call
	more  bool // ahead is set
}

func (j *joined) next() (call, bool, error) {
	if len(j.held) > 0 {
		c := j.held[0]
		j.held = j.held[1:]
		return c, true, nil
	}
	c, more := j.ahead, j.more
	j.more = false
	if !more {
		var err error
		if c, more, err = j.calls.next(); err != nil || !more {
			return c, false, err
		}
	}
	if c.mark&overdue == 0 {
		return c, true, nil
	}
	if err := j.hold(c); err != nil {
		return c, false, err
	}
	return j.next()
}

// hold reads on to the last call that began when c did, and drops those that
// are there twice.
func (j *joined) hold(c call) (err error) {
	j.held = []call{c}
	for {
		if j.ahead, j.more, err = j.calls.next(); err != nil {
			return err
		}
		if !j.more || j.ahead.start != c.start {
			return nil
		}
		if j.ahead.mark&(late|overdue) == late {
			j.drop(j.ahead.circuit)
		}
		j.held = append(j.held, j.ahead)
	}
}

// drop drops a held call of the circuit that was counted before its end.
func (j *joined) drop(circuit int32) {
	i := slices.IndexFunc(j.held, func(c call) bool { return c.circuit == circuit && c.mark&overdue != 0 })
	if i >= 0 {
		j.held = slices.Delete(j.held, i, i+1)
	}
}
