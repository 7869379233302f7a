package filestore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/fusebox-go/fusebox"
)

// Endings of the files in a store's directory. None of '~', '+', '=' and '%'
// stands for itself in an encoded name, so they cannot be mistaken.
const (
	logSuffix     = ".jsonl"
	lockSuffix    = ".lock"
	failureSuffix = ".failures"
	blockedSuffix = ".blocked-until"
	sharesSuffix  = ".shares"
	newSuffix     = "~new"
	oldMark       = "~" // before the number of a rotated file
	hashMark      = "=" // before the hash of a name that is too long for a file
)

// maxFileName leaves room for the endings within the 255 bytes of a file name.
const maxFileName = 200

// reserved are the names of devices that Windows opens whatever the ending.
var reserved = map[string]bool{"con": true, "prn": true, "aux": true, "nul": true}

func init() {
	for digit := '0'; digit <= '9'; digit++ {
		reserved["com"+string(digit)] = true
		reserved["lpt"+string(digit)] = true
	}
}

// fileName encodes a canonical name as the stem of its files. Different names
// have different stems, even where the file system ignores case: lower-case
// letters, digits and "._-@" stand for themselves, '/' becomes '+', any other
// byte %xx. What would be too long ends in a hash instead.
func fileName(circuit string) string {
	var b strings.Builder
	device, _, _ := strings.Cut(circuit, ".")
	for i := range len(circuit) {
		c := circuit[i]
		switch {
		case i == 0 && (c == '.' || reserved[device]):
			fmt.Fprintf(&b, "%%%02x", c)
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '_', c == '-', c == '@':
			b.WriteByte(c)
		case c == '/':
			b.WriteByte('+')
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	stem := b.String()
	if len(stem) <= maxFileName {
		return stem
	}
	sum := sha256.Sum256([]byte(circuit))
	return stem[:maxFileName-33] + hashMark + hex.EncodeToString(sum[:16])
}

// circuitName is the inverse of fileName. A stem that ends in a hash, and one
// that this package would not write, give ok false.
func circuitName(stem string) (circuit string, ok bool) {
	var b []byte
	for i := 0; i < len(stem); i++ {
		switch c := stem[i]; c {
		case '+':
			b = append(b, '/')
		case '%':
			if i+3 > len(stem) {
				return "", false
			}
			decoded, err := hex.DecodeString(stem[i+1 : i+3])
			if err != nil {
				return "", false
			}
			b = append(b, decoded...)
			i += 2
		default:
			b = append(b, c)
		}
	}
	name, err := fusebox.CanonicalName(string(b))
	if err != nil || name != string(b) || fileName(name) != stem {
		return "", false
	}
	return name, true
}
