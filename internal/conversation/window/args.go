package window

import (
	"bytes"
	"crypto/sha256"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/tool"
)

// members are the members of a call's arguments as the model wrote them. They are
// nil if the arguments are not one strict JSON object.
type members map[string]jsontext.Value

// membersOf parses arguments. Missing arguments count as an empty object.
func membersOf(args []byte) members {
	if len(bytes.TrimSpace(args)) == 0 {
		return members{}
	}
	var out members
	if json.Unmarshal(args, &out) != nil { // it refuses duplicate names
		return nil
	}
	return out
}

// values maps parameters to their values in canonical form, or to "" if missing.
// It is nil if the arguments were malformed.
type values map[string]string

// values returns the values of the given parameters.
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

// short returns a value, or its hash if it is long.
func short(v []byte) string {
	if len(v) <= 64 {
		return string(v)
	}
	sum := sha256.Sum256(v)
	return "#" + string(sum[:]) // no JSON value begins with #
}

// key combines the values of the given parameters into one lookup key. It returns
// false if a value is unknown, for example because the arguments are malformed:
// such a call matches no other. Missing parameters match each other.
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
