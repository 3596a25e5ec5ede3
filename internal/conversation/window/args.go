package window

import (
	"bytes"
	"crypto/sha256"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/tool"
)

// members are the members of a call's arguments as they were written; nil
// where the arguments are not one strict JSON object.
type members map[string]jsontext.Value

// membersOf reads arguments. None at all are an empty object.
func membersOf(args []byte) members {
	if len(bytes.TrimSpace(args)) == 0 {
		return members{}
	}
	var out members
	if json.Unmarshal(args, &out) != nil { // it refuses names that occur twice
		return nil
	}
	return out
}

// values are the values of some parameters, each in one spelling, empty where
// it is missing; nil where the arguments were malformed.
type values map[string]string

// values returns the values of some parameters.
func (m members) values(params []string) values {
	if m == nil {
		return nil
	}
	out := values{}
	for _, n := range params {
		raw, ok := m[n]
		if !ok {
			out[n] = ""
			continue
		}
		v, err := tool.Canonical(raw)
		if err != nil {
			return nil
		}
		out[n] = short(v)
	}
	return out
}

// short is a value, or its hash where it is long.
func short(v []byte) string {
	if len(v) <= 64 {
		return string(v)
	}
	sum := sha256.Sum256(v)
	return "#" + string(sum[:]) // no JSON value begins so
}

// key is one word for the values of some parameters; false where they are not
// known, as those of malformed arguments, which match nothing. A parameter
// that is missing is like another that is.
func (v values) key(params []string) (string, bool) {
	var b []byte
	for _, p := range params {
		x, ok := v[p]
		if !ok {
			return "", false
		}
		b = append(strconv.AppendInt(b, int64(len(x)), 10), ':')
		b = append(b, x...)
	}
	return string(b), true
}
