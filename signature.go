package fusebox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
)

// SignatureOptions says which arguments make a call what it is. An entry that
// begins with a slash is a JSON pointer (RFC 6901), matched exactly. Any other
// is the name of a member at any depth, compared without regard to case, "_"
// and "-", so that request_id also stands for requestId.
type SignatureOptions struct {
	Ignore   []string // left out, besides [DefaultIgnore]
	Identify []string // if set, these alone count, even if Ignore names them
}

// DefaultIgnore returns the names that are left out of every signature: what
// varies from call to call without changing what is asked for.
func DefaultIgnore() []string {
	return []string{
		"request_id", "x_request_id", "client_request_id", "correlation_id", "trace_id", "span_id",
		"traceparent", "tracestate", "idempotency_key", "x_idempotency_key", "idempotency_token",
		"nonce", "progress_token", "tool_call_id", "tool_use_id", "message_id", "invocation_id",
	}
}

// maxSignedArguments bounds what is parsed, in bytes; larger arguments are
// hashed as they are.
const maxSignedArguments = 1 << 20

// Signature identifies an exact call: the tool's name and its arguments as
// canonical JSON, hashed to 20 hexadecimal digits.
//
// args is raw JSON in a json.RawMessage, or any value that encoding/json can
// marshal. Members are sorted; of members with the same name the last counts;
// numbers are compared by value with all their digits (1, 1.0 and 1e0 are one
// number, 9007199254740993 is another than 9007199254740992). No arguments,
// null and {} are the same. A top-level _meta never counts. Digits in
// arguments are identity: three pull-request numbers are three calls.
//
// Arguments that are not JSON, or larger than 1 MiB, are taken byte for byte.
// A Go value that cannot be marshaled gives "": such calls cannot be told
// apart, so none is taken for a repeat of another.
func Signature(tool string, args any, o SignatureOptions) string {
	return newSigner(o).sign(tool, args)
}

// signer is a compiled SignatureOptions.
type signer struct {
	names    map[string]bool // folded
	pointers map[string]bool
	identify []string
}

func newSigner(o SignatureOptions) *signer {
	s := &signer{names: map[string]bool{}, pointers: map[string]bool{}, identify: o.Identify}
	for _, entry := range slices.Concat(DefaultIgnore(), o.Ignore) {
		if strings.HasPrefix(entry, "/") {
			s.pointers[entry] = true
		} else {
			s.names[foldName(entry)] = true
		}
	}
	return s
}

func (s *signer) sign(tool string, args any) string {
	raw, isRaw := args.(json.RawMessage)
	if !isRaw && args != nil {
		var err error
		if raw, err = json.Marshal(args); err != nil {
			return ""
		}
	}
	b := appendText(make([]byte, 0, 256), tool)
	root, ok := parseArguments(raw)
	switch {
	case !ok:
		b = appendText(append(b, 'r'), string(raw))
	case len(s.identify) > 0:
		b = s.appendIdentified(b, root)
	default:
		b = s.appendValue(b, "", root)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:10])
}

// parseArguments decodes raw and reports whether it is one JSON value of a
// size that is worth the work. What is absent or null is an empty object.
func parseArguments(raw []byte) (root any, ok bool) {
	if len(raw) > maxSignedArguments {
		return nil, false
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]any{}, true
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&root); err != nil {
		return nil, false
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, false
	}
	switch v := root.(type) {
	case nil:
		return map[string]any{}, true
	case map[string]any:
		delete(v, "_meta")
	}
	return root, true
}

// appendIdentified writes only what Identify names, with the path of each.
func (s *signer) appendIdentified(b []byte, root any) []byte {
	for _, entry := range s.identify {
		if strings.HasPrefix(entry, "/") {
			if v, ok := atPointer(root, entry); ok {
				b = s.appendValue(appendText(append(b, 'p'), entry), entry, v)
			}
			continue
		}
		b = s.appendNamed(b, "", root, foldName(entry))
	}
	return b
}

// appendNamed writes every member of that name, at any depth.
func (s *signer) appendNamed(b []byte, path string, v any, name string) []byte {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			at := path + "/" + escapePointer(key)
			if foldName(key) == name {
				b = s.appendValue(appendText(append(b, 'p'), at), at, v[key])
			} else {
				b = s.appendNamed(b, at, v[key], name)
			}
		}
	case []any:
		for i, e := range v {
			b = s.appendNamed(b, path+"/"+strconv.Itoa(i), e, name)
		}
	}
	return b
}

// appendValue writes v in a form that no other value has. Paths are only
// built where a pointer could match.
func (s *signer) appendValue(b []byte, path string, v any) []byte {
	below := func(step string) string {
		if len(s.pointers) == 0 {
			return ""
		}
		return path + "/" + step
	}
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for _, key := range sortedKeys(v) {
			at := below(escapePointer(key))
			if s.names[foldName(key)] || s.pointers[at] {
				continue
			}
			b = s.appendValue(appendText(b, key), at, v[key])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, e := range v {
			at := below(strconv.Itoa(i))
			if s.pointers[at] {
				continue
			}
			b = s.appendValue(b, at, e)
		}
		return append(b, ']')
	case json.Number:
		return appendText(append(b, 'n'), canonicalNumber(string(v)))
	case string:
		return appendText(append(b, 's'), v)
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, "null"...)
}

// appendText writes s with its length, so that no two sequences of texts look alike.
func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(append(b, '"'), uint64(len(s)))
	return append(b, s...)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// canonicalNumber spells a JSON number by its value: digits without zeros at
// either end, and a power of ten.
func canonicalNumber(s string) string {
	digits, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	digits, negative := strings.CutPrefix(digits, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	power := 0
	if exponent != "" {
		n, err := strconv.Atoi(exponent)
		if err != nil || n > 1<<40 || n < -1<<40 {
			return s // beyond any number that is meant as one
		}
		power = n
	}
	power -= len(fraction)
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	power += len(digits) - len(trimmed)
	if trimmed == "" {
		return "0"
	}
	if negative {
		trimmed = "-" + trimmed
	}
	return trimmed + "e" + strconv.Itoa(power)
}

// foldName drops case, "_" and "-" from a member's name.
func foldName(name string) string {
	plain := true
	for i := 0; i < len(name) && plain; i++ {
		c := name[i]
		plain = c != '_' && c != '-' && c < 0x80 && (c < 'A' || c > 'Z')
	}
	if plain {
		return name
	}
	return separators.Replace(strings.ToLower(name))
}

var separators = strings.NewReplacer("_", "", "-", "")

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func escapePointer(step string) string { return pointerEscapes.Replace(step) }

var pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")

// atPointer returns the value that a JSON pointer names.
func atPointer(v any, pointer string) (any, bool) {
	for step := range strings.SplitSeq(pointer[1:], "/") {
		step = pointerUnescapes.Replace(step)
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[step]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}
