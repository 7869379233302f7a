package replay

// unfolded hands out calls in the order of their starts, each run of successes
// as the calls that it stands for.
type unfolded struct {
	records calls // in the order of their first starts
	ahead   call
	more    bool // ahead is set
	runs    heap[run]
}

// run is a run of successes that has been handed out up to, not including, at.
type run struct {
	first, at call
}

func unfold(records calls) (*unfolded, error) {
	u := &unfolded{records: records}
	u.runs.before = func(a, b *run) bool { return compareStarts(&a.at, &b.at) < 0 }
	return u, u.advance()
}

func (u *unfolded) advance() (err error) {
	u.ahead, u.more, err = u.records.next()
	return err
}

func (u *unfolded) next() (call, bool, error) {
	if !u.runs.empty() {
		r := u.runs.first()
		if !u.more || compareStarts(&r.at, &u.ahead) < 0 {
			c := r.at
			if c.index+1 < c.n {
				r.at = next(&r.first, c.index+1)
				u.runs.fix()
			} else {
				u.runs.pop()
			}
			return c, true, nil
		}
	}
	c, more := u.ahead, u.more
	if !more {
		return c, false, nil
	}
	if c.n > 1 {
		u.runs.push(run{first: c, at: next(&c, 1)})
	}
	return c, true, u.advance()
}
