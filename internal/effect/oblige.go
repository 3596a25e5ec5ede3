package effect

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
)

// oblige adds what goes with a decision to what the result has to meet: all
// that any decision about the call has asked for.
func (j *job) oblige(o policy.Obligations) {
	for _, p := range o.Mask {
		if !slices.Contains(j.duty.Mask, p) {
			j.duty.Mask = append(slices.Clip(j.duty.Mask), p)
		}
	}
	if o.Cap > 0 && (j.duty.Cap == 0 || o.Cap < j.duty.Cap) {
		j.duty.Cap = o.Cap
	}
}

// limit is how many bytes of text the model is shown of the result.
func (j *job) limit() int {
	n := j.spec.ResultCap
	if n == 0 {
		n = tool.DefaultResultCap
	}
	if j.duty.Cap > 0 {
		n = min(n, j.duty.Cap)
	}
	return n
}

// masked returns a result's content with the fields masked that are not to be
// seen. False: it is not such that they can be told apart.
func (j *job) masked(in []message.Block) ([]message.Block, bool) {
	if len(j.duty.Mask) == 0 {
		return in, true
	}
	out := make([]message.Block, 0, len(in))
	for _, b := range in {
		t, ok := b.(*message.Text)
		if !ok {
			return nil, false
		}
		text, ok := mask(t.Text, j.duty.Mask)
		if !ok {
			return nil, false
		}
		c := *t
		c.Text = text
		out = append(out, &c)
	}
	return out, true
}

// withheld is the result where policy wants fields masked that cannot be told
// apart: nothing of what the tool said is in it.
func (j *job) withheld(s shaped, was []message.Block) shaped {
	wants := "policy wants parts of it masked (" + strings.Join(j.duty.Mask, ", ") + "), and it is no JSON in which they could be found"
	text := "The call ended; what the tool said is withheld: " + wants + "."
	if j.spec.Effect == tool.Query {
		s.res.Status = message.DeniedCall
		text = "Denied, the result is withheld: " + wants + "."
	}
	b, c := j.note(text)
	c.Origin = "system"
	s.res.Origin, s.res.Labels = "system", j.spec.Yields|message.LabelsOf(was)
	s.res.Content = []message.Block{b}
	return s
}

// masking is what stands in place of what is masked.
const masking = "***"

// mask masks the values at JSON pointers (RFC 6901; "*" is any one step) in a
// text that is one JSON value. False: it is none.
func mask(text string, pointers []string) (string, bool) {
	if slices.Contains(pointers, "") {
		return masking, true
	}
	m := masker{dec: jsontext.NewDecoder(strings.NewReader(text))}
	var b strings.Builder
	m.enc = jsontext.NewEncoder(&b)
	for _, p := range pointers {
		if !strings.HasPrefix(p, "/") {
			return "", false // a rule that means nothing masks nothing: refuse
		}
		steps := strings.Split(p[1:], "/")
		for i := range steps {
			steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[i])
		}
		m.rules = append(m.rules, steps)
	}
	if m.value() != nil {
		return "", false
	}
	if _, err := m.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return "", false
	}
	return strings.TrimSuffix(b.String(), "\n"), true
}

// masker copies one JSON value, token by token.
type masker struct {
	dec   *jsontext.Decoder
	enc   *jsontext.Encoder
	rules [][]string
	path  []string
}

// hides reports whether a rule means the value at the path.
func (m *masker) hides() bool {
	return slices.ContainsFunc(m.rules, func(r []string) bool {
		return slices.EqualFunc(r, m.path, func(want, is string) bool { return want == "*" || want == is })
	})
}

func (m *masker) value() error {
	if m.hides() {
		if err := m.dec.SkipValue(); err != nil {
			return err
		}
		return m.enc.WriteToken(jsontext.String(masking))
	}
	kind := m.dec.PeekKind()
	if kind != '{' && kind != '[' {
		v, err := m.dec.ReadValue()
		if err != nil {
			return err
		}
		return m.enc.WriteValue(v)
	}
	if _, err := m.copy(); err != nil {
		return err
	}
	for i := 0; m.dec.PeekKind() != '}' && m.dec.PeekKind() != ']'; i++ {
		step := strconv.Itoa(i)
		if kind == '{' {
			name, err := m.copy()
			if err != nil {
				return err
			}
			step = name
		}
		m.path = append(m.path, step)
		if err := m.value(); err != nil {
			return err
		}
		m.path = m.path[:len(m.path)-1]
	}
	_, err := m.copy()
	return err
}

// copy copies a token, and returns what it says.
func (m *masker) copy() (string, error) {
	t, err := m.dec.ReadToken()
	if err != nil {
		return "", err
	}
	text := t.String()
	return text, m.enc.WriteToken(t)
}
