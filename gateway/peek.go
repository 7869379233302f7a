package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
)

// peeked is what the gateway needs to know of a request's body.
type peeked struct {
	model   string
	spans   []span // where the model's name stands, quotes included
	stream  bool
	answers int // how many answers were asked for ("n")
}

type span struct{ from, to int }

var (
	errNotJSON  = errors.New("the body is not a JSON object")
	errNoModel  = errors.New(`the body has no "model"`)
	errBadModel = errors.New(`"model" must be a string that is not empty`)
)

// peek reads the model's name and whether a stream is wanted, without decoding
// the body.
func peek(body []byte) (peeked, error) {
	p := peeked{answers: 1}
	walk := members{b: body}
	for {
		key, value, ok := walk.next()
		if !ok {
			break
		}
		switch string(key) {
		case "model":
			name := plain(value)
			if len(name) == 0 {
				return peeked{}, errBadModel
			}
			p.model = string(name)
			p.spans = append(p.spans, span{walk.at - len(value), walk.at})
		case "stream":
			p.stream = string(value) == "true"
		case "n":
			p.answers = max(integer(value, 1), 1)
		}
	}
	if !walk.closed || len(bytes.TrimSpace(walk.rest())) > 0 {
		return peeked{}, errNotJSON
	}
	return p, nil
}

// rename returns the body with the model's name replaced. All other bytes stay
// as they are; without a change it is body itself.
func (p *peeked) rename(body []byte, model string) []byte {
	if model == p.model || len(p.spans) == 0 {
		return body
	}
	name, err := json.Marshal(model)
	if err != nil {
		return body // a string always has a JSON form
	}
	out := make([]byte, 0, len(body)+len(p.spans)*len(name))
	from := 0
	for _, s := range p.spans {
		out = append(append(out, body[from:s.from]...), name...)
		from = s.to
	}
	return append(out, body[from:]...)
}
