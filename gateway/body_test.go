package gateway

import (
	"io"
	"testing"
)

// declared gives n bytes and then waits for ever for what was declared: here it
// ends.
type declared struct {
	n    int
	most int // the longest piece that was asked for
}

func (d *declared) Read(b []byte) (int, error) {
	d.most = max(d.most, len(b))
	n := min(d.n, len(b))
	d.n -= n
	if n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

func TestADeclaredLengthAloneTakesNoMemory(t *testing.T) {
	idle := &declared{n: 10}
	if _, err := readDeclared(idle, 32<<20); err == nil || idle.most > believed {
		t.Errorf("memory for %d bytes was made while 10 had come, error %v", idle.most, err)
	}
	for _, n := range []int64{1, believed - 1, believed, believed + 1, 5*believed + 7} {
		body, err := readDeclared(&declared{n: int(n)}, n)
		if err != nil || int64(len(body)) != n {
			t.Errorf("of %d bytes %d were read: %v", n, len(body), err)
		}
	}
}
