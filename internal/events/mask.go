package events

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"steward/internal/policy"
)

// mask stands for what a subscriber may not see.
const mask = "***"

// masked returns a body as policy obliges to tell it; false where it cannot be
// told so: it is longer than the cap, or has fields to mask and is no JSON.
func masked(body []byte, o policy.Obligations) ([]byte, bool) {
	if o.Cap > 0 && len(body) > o.Cap {
		return nil, false
	}
	if len(o.Mask) == 0 {
		return body, json.Valid(body)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return nil, false
	}
	for _, pointer := range o.Mask {
		if pointer == "" {
			v = mask
			continue
		}
		hide(v, strings.Split(strings.TrimPrefix(pointer, "/"), "/"))
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, false
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), true
}

// hide masks what the steps of a JSON pointer (RFC 6901) lead to; "*" is any
// one step.
func hide(v any, steps []string) {
	step := strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[0])
	last := len(steps) == 1
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			switch {
			case step != "*" && name != step:
			case last:
				v[name] = mask
			default:
				hide(x, steps[1:])
			}
		}
	case []any:
		for i, x := range v {
			switch {
			case step != "*" && step != strconv.Itoa(i):
			case last:
				v[i] = mask
			default:
				hide(x, steps[1:])
			}
		}
	}
}
