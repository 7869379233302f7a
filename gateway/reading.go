package gateway

import (
	"bytes"
	"math/bits"
)

// sign is what one event of a stream means for the gateway.
type sign uint8

const (
	signPreamble  sign = iota // nothing of the answer yet: the client can still be given another backend's
	signContent               // part of the answer
	signEnd                   // the answer is complete, by the stream's own word
	signError                 // an error inside the stream
	signMalformed             // not what this format allows
)

// reading follows one stream and knows whether its answer is complete.
type reading struct {
	format   format
	answers  int    // how many were asked for
	finished uint64 // which of them have finished, a bit each
	ended    bool   // the stream said that it is over
	sequence int    // of the last event, where the format counts them
}

// complete reports whether silence or the end of the stream would now be its
// proper end.
func (r *reading) complete() bool {
	switch r.format {
	case formatOther:
		return true // only the connection can tell
	case formatChat, formatText, formatMessages:
		return r.ended || bits.OnesCount64(r.finished) >= min(r.answers, 64)
	}
	return r.ended
}

// prompt reports whether a complete answer may be ended after a short silence.
// Text completions may hold answers to several prompts, whose number the
// gateway does not know.
func (r *reading) prompt() bool {
	return r.ended || r.format == formatChat || r.format == formatMessages
}

// read takes in the next event.
func (r *reading) read(e event) sign {
	if len(bytes.TrimSpace(e.data)) == 0 {
		return signPreamble // a comment or a keep-alive
	}
	if string(e.data) == "[DONE]" {
		r.ended = true
		return signEnd
	}
	if string(e.name) == "error" {
		return signError
	}
	switch r.format {
	case formatChat, formatText:
		return r.readChunk(e.data)
	case formatResponses, formatMessages:
		return r.readTyped(e)
	}
	if failed := member(e.data, "error"); !isNull(failed) {
		return signError
	}
	return signContent
}

// readChunk reads a chunk of OpenAI's chat or text completions, in one pass.
func (r *reading) readChunk(data []byte) sign {
	found := signPreamble
	chunk := members{b: data}
	for {
		key, ok := chunk.key()
		if !ok {
			break
		}
		if string(key) == "choices" {
			choices := elements{chunk.inner()}
			if r.readChoices(&choices) {
				found = signContent
			}
			if !chunk.pass(&choices.members) {
				break
			}
			continue
		}
		value, ok := chunk.value()
		if !ok {
			break
		}
		switch string(key) {
		case "error":
			if !isNull(value) {
				return signError
			}
		case "object":
			if string(value) == `"error"` {
				return signError
			}
		}
	}
	if !chunk.closed {
		return signMalformed
	}
	return found
}

// readChoices reports whether there is content among a chunk's choices, and
// notes which have finished.
func (r *reading) readChoices(choices *elements) (content bool) {
	for choices.more() {
		choice := choices.inner()
		index, says, finishes := readChoice(&choice)
		content = content || says || finishes
		switch bit := uint64(1) << (uint(index) & 63); {
		case finishes:
			r.finished |= bit
		case says:
			r.finished &^= bit
		}
		if !choices.pass(&choice) {
			break
		}
	}
	return content
}

// readChoice tells which choice it is, whether it says something, and whether
// that was all of it.
func readChoice(choice *members) (index int, says, finishes bool) {
	for {
		key, ok := choice.key()
		if !ok {
			return index, says, finishes
		}
		if string(key) == "delta" {
			delta := choice.inner()
			says = saysSomething(&delta)
			if !choice.pass(&delta) {
				return index, says, finishes
			}
			continue
		}
		value, ok := choice.value()
		if !ok {
			return index, says, finishes
		}
		switch string(key) {
		case "index":
			index = integer(value, 0)
		case "text":
			says = !isEmpty(value)
		case "finish_reason":
			finishes = !isNull(value)
		}
	}
}

// saysSomething reports whether a delta holds more than the role.
func saysSomething(delta *members) (says bool) {
	for {
		key, value, ok := delta.next()
		if !ok {
			return says
		}
		says = says || string(key) != "role" && !isEmpty(value)
	}
}

// readTyped reads an event that names its type: OpenAI's Responses and
// Anthropic's Messages.
func (r *reading) readTyped(e event) sign {
	name := e.name
	var delta []byte
	object := members{b: e.data}
	for {
		key, value, ok := object.next()
		if !ok {
			break
		}
		switch string(key) {
		case "type":
			name = plain(value)
		case "sequence_number":
			r.sequence = integer(value, r.sequence)
		case "delta":
			delta = value
		}
	}
	if !object.closed {
		return signMalformed
	}
	if r.format == formatMessages {
		return r.readMessage(name, delta)
	}
	return r.readResponse(name)
}

func (r *reading) readMessage(name, delta []byte) sign {
	switch string(name) {
	case "message_start", "ping", "content_block_start":
		return signPreamble
	case "message_delta":
		if !isNull(member(delta, "stop_reason")) {
			r.finished = 1
		}
	case "message_stop":
		r.ended = true
		return signEnd
	case "error":
		return signError
	}
	return signContent
}

func (r *reading) readResponse(name []byte) sign {
	switch string(name) {
	case "response.created", "response.in_progress", "response.queued",
		"response.output_item.added", "response.content_part.added", "keepalive":
		return signPreamble
	case "response.completed", "response.incomplete", "response.cancelled":
		r.ended = true
		return signEnd
	case "response.failed", "error":
		return signError
	}
	return signContent
}
