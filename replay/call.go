package replay

import (
	"cmp"
	"math/bits"
	"time"

	"github.com/fusebox-go/fusebox"
)

// call is one recorded call, or the first of a run of n successes: what replay
// needs of a log's line. Times are nanoseconds since the epoch.
type call struct {
	start   int64
	end     int64
	last    int64  // end of the run's last call; of a single call its end
	line    int64  // number of the record over all files
	exact   uint64 // identity of the exact call within its run; 0 = not given
	n       int64  // calls in the run, at least 1
	index   int64  // in the run
	circuit int32
	outcome fusebox.Outcome
	class   uint8 // index into fusebox.Classes, plus 1; 0 = none of them
	mark    mark
}

// mark says that a record tells of a call that another one tells of too.
type mark uint8

const (
	overdue mark = 1 << iota // it was counted as failed before its end
	late                     // it had no vote: where it was counted before, this is its end
)

// compareStarts orders calls by start and, at one instant, as the log sorted by
// `at` does.
func compareStarts(a, b *call) int {
	if c := cmp.Compare(a.start, b.start); c != 0 {
		return c
	}
	return compareLog(a, b)
}

// compareLog is the order of the log, sorted by `at`.
func compareLog(a, b *call) int {
	if c := cmp.Compare(a.end, b.end); c != 0 {
		return c
	}
	if c := cmp.Compare(a.line, b.line); c != 0 {
		return c
	}
	return cmp.Compare(a.index, b.index)
}

func (c *call) elapsed() time.Duration { return time.Duration(c.end - c.start) }

func (c *call) className() fusebox.Class {
	if c.class == 0 {
		return ""
	}
	return fusebox.Classes[c.class-1]
}

// next makes the i-th call of a run of which first is the first. The ends are
// spread evenly from the first to the last, both included.
func next(first *call, i int64) call {
	c := *first
	c.index = i
	hi, lo := bits.Mul64(uint64(first.last-first.end), uint64(i))
	shift, _ := bits.Div64(hi, lo, uint64(first.n-1)) // hi < n-1, because i <= n-1 and the span is below 2^63
	c.start += int64(shift)
	c.end += int64(shift)
	return c
}
