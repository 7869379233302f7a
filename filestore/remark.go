package filestore

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/fusebox-go/fusebox"
)

// previous is a rotated file that programs may still be appending to.
type previous struct {
	name string // in the store's directory; "" = none
	read int64  // bytes that the present log accounts for
}

// remark is what a checkpoint line may say beside the state.
type remark struct {
	File  string `json:"file,omitempty"`  // the rotated file that the log continues
	Size  int64  `json:"size,omitempty"`  // how far the log accounts for that file
	Began *int64 `json:"began,omitempty"` // byte at which the write was meant to begin, where lines without a state are before this one
}

// remarkOf reads what the checkpoint line says of key, if it is there.
func remarkOf(text []byte, key string) (r remark, ok bool) {
	ok = bytes.Contains(text, []byte(key)) && json.Unmarshal(text, &r) == nil
	return r, ok
}

// beganAt returns where the checkpoint's write was meant to begin.
func beganAt(text []byte, e *fusebox.Event) (int64, bool) {
	if e.Kind != fusebox.KindCheckpoint {
		return 0, false
	}
	r, ok := remarkOf(text, `"began":`)
	if !ok || r.Began == nil || *r.Began < 0 {
		return 0, false
	}
	return *r.Began, true
}

// rotatedFrom returns the file that a checkpoint continues.
func rotatedFrom(text []byte, e *fusebox.Event) (previous, bool) {
	if e.Kind != fusebox.KindCheckpoint {
		return previous{}, false
	}
	r, ok := remarkOf(text, `"file":`)
	if !ok || !isRotated(r.File) || r.Size < 0 {
		return previous{}, false
	}
	return previous{name: r.File, read: r.Size}, true
}

// firstPrevious reads from f's first line which file it continues.
func firstPrevious(f io.ReaderAt) (previous, error) {
	for l, err := range lines(io.NewSectionReader(f, 0, fusebox.MaxLine), 0) {
		if err != nil {
			return previous{}, err
		}
		from, _ := rotatedFrom(l.text, &fusebox.Event{Kind: fusebox.KindCheckpoint})
		return from, nil
	}
	return previous{}, nil
}

// latestPrevious reads from all of f how far the file before it was read.
func latestPrevious(f io.ReaderAt, size int64) (previous, error) {
	var latest previous
	for l, err := range lines(io.NewSectionReader(f, 0, size), 0) {
		if err != nil {
			return latest, err
		}
		if from, ok := rotatedFrom(l.text, &fusebox.Event{Kind: fusebox.KindCheckpoint}); ok {
			latest = from
		}
	}
	return latest, nil
}
