package offline

import (
	"encoding/json"
	"strconv"
	"strings"

	"steward/internal/message"
)

// outcome is what a call gave: its status, its text, and the JSON value that
// the text holds, if it does.
type outcome struct {
	status message.Status
	text   string
	value  any
	rest   string
}

func newOutcome(r *message.ToolResult) *outcome {
	o := &outcome{status: r.Status, text: strings.TrimSpace(r.Plain()), rest: r.Rest}
	if v, ok := decode([]byte(o.text)); ok {
		o.value = v
	}
	return o
}

func (o *outcome) ok() bool { return o != nil && (o.status == message.OK || o.status == "") }

// decode reads one JSON value and nothing after it.
func decode(raw []byte) (any, bool) {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil, false
	}
	return v, true
}

// field returns the member of the result that bears the parameter's name.
func (o *outcome) field(p *param) (any, bool) {
	if !o.ok() {
		return nil, false
	}
	obj, _ := o.value.(map[string]any)
	if v, ok := obj[p.name]; ok {
		return p.coerce(v)
	}
	if v, ok := obj["id"]; ok && p.named(roleID) && (strings.HasSuffix(p.name, "id") || strings.HasSuffix(p.name, "Id") || strings.HasSuffix(p.name, "ID")) {
		return p.coerce(v)
	}
	return nil, false
}

// as turns the whole result into a value for the parameter.
func (o *outcome) as(p *param) (any, bool) {
	if !o.ok() {
		return nil, false
	}
	if v, ok := o.field(p); ok {
		return v, true
	}
	switch p.shape {
	case shNumber, shInteger:
		v, ok := o.number()
		return v, ok && p.holds(v)
	case shString:
		text := o.text
		if obj, ok := o.value.(map[string]any); ok {
			if text, ok = soleString(obj); !ok {
				text = o.text
			}
		} else if s, ok := o.value.(string); ok {
			text = s
		}
		return text, text != "" && len(text) <= 4096 && p.fits(text)
	}
	return nil, false
}

// coerce fits a JSON value to the parameter.
func (p *param) coerce(v any) (any, bool) {
	switch p.shape {
	case shString:
		switch v := v.(type) {
		case string:
			return v, p.fits(v)
		case float64:
			s := strconv.FormatFloat(v, 'f', -1, 64)
			return s, p.fits(s)
		}
	case shNumber, shInteger:
		if n, ok := v.(float64); ok {
			return n, p.holds(n)
		}
	}
	return nil, false
}

func soleString(obj map[string]any) (string, bool) {
	for _, k := range []string{"result", "text", "value", "output", "answer", "content"} {
		if s, ok := obj[k].(string); ok {
			return s, true
		}
	}
	found, n := "", 0
	for _, v := range obj {
		if s, ok := v.(string); ok {
			found, n = s, n+1
		}
	}
	return found, n == 1
}

// number returns the number that the result comes down to: the JSON number,
// the member named result or like it, the only member that is one, or the
// last number in the text.
func (o *outcome) number() (float64, bool) {
	switch v := o.value.(type) {
	case float64:
		return v, true
	case map[string]any:
		for _, k := range []string{"result", "value", "total", "sum", "product", "quotient", "difference", "answer", "amount", "count"} {
			if n, ok := v[k].(float64); ok {
				return n, true
			}
		}
		found, n := 0.0, 0
		for _, m := range v {
			if f, ok := m.(float64); ok {
				found, n = f, n+1
			}
		}
		if n == 1 {
			return found, true
		}
		return 0, false
	}
	toks := tokenize(o.text)
	for i := len(toks) - 1; i >= 0; i-- {
		if toks[i].kind == tkNumber {
			return toks[i].num, true
		}
	}
	return 0, false
}
