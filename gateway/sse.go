package gateway

import "bytes"

// event is one server-sent event, as slices of the buffer it was found in.
type event struct {
	name []byte
	data []byte // lines joined by \n; nil for an event that holds comments only
}

// events finds server-sent events in a buffer that grows at its end. It keeps
// offsets only: nothing is allocated per event.
type events struct {
	begin int  // of the event that is not complete yet
	line  int  // of the line that is not complete yet
	torn  bool // the beginning of that event is lost: it is not understood
}

// next returns the next complete event of b.
func (s *events) next(b []byte) (event, bool) {
	for {
		n := bytes.IndexByte(b[s.line:], '\n')
		if n < 0 {
			return event{}, false
		}
		end := s.line + n
		blank := len(trimCR(b[s.line:end])) == 0
		s.line = end + 1
		if blank {
			e := event{}
			if !s.torn {
				e = parseEvent(b[s.begin:s.line])
			}
			s.begin, s.torn = s.line, false
			return e, true
		}
	}
}

// last returns what stands in b after the last complete event, as an event:
// some servers leave out the blank line at the very end.
func (s *events) last(b []byte) (event, bool) {
	if len(bytes.TrimSpace(b[s.begin:])) == 0 {
		return event{}, false
	}
	e := parseEvent(b[s.begin:])
	s.begin, s.line = len(b), len(b)
	return e, true
}

// skip tells that the buffer up to n is taken out although an event of it is
// not complete.
func (s *events) skip(n int) { s.begin, s.line, s.torn = n, n, true }

// drop tells that the first n bytes, which are no part of an incomplete event,
// were taken out of the buffer.
func (s *events) drop(n int) {
	s.begin -= n
	s.line -= n
}

// parseEvent reads the lines of one event.
func parseEvent(raw []byte) (e event) {
	for len(raw) > 0 {
		var line []byte
		line, raw, _ = bytes.Cut(raw, []byte{'\n'})
		field, value, _ := bytes.Cut(trimCR(line), []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(bytes.TrimPrefix(field, []byte("\ufeff"))) {
		case "event":
			e.name = value
		case "data":
			if e.data == nil {
				e.data = value[:len(value):len(value)]
			} else {
				e.data = append(append(e.data, '\n'), value...)
			}
		}
	}
	return e
}

func trimCR(line []byte) []byte { return bytes.TrimSuffix(line, []byte{'\r'}) }
