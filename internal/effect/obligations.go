package effect

import (
	"slices"
	"strings"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
)

// addObligations adds what goes with a decision to what the result has to meet: all
// that any decision about the call has asked for.
func (j *job) addObligations(o policy.Obligations) {
	for _, p := range o.Mask {
		if !slices.Contains(j.obligations.Mask, p) {
			j.obligations.Mask = append(slices.Clip(j.obligations.Mask), p)
		}
	}
	if o.Cap > 0 && (j.obligations.Cap == 0 || o.Cap < j.obligations.Cap) {
		j.obligations.Cap = o.Cap
	}
}

// limit is how many bytes of text the model is shown of the result.
func (j *job) limit() int {
	n := j.spec.ResultCap
	if n == 0 {
		n = tool.DefaultResultCap
	}
	if j.obligations.Cap > 0 {
		n = min(n, j.obligations.Cap)
	}
	return n
}

// masked returns a result's content with the fields masked that are not to be
// seen. False: it is not such that they can be told apart.
func (j *job) masked(in []message.Block) ([]message.Block, bool) {
	if len(j.obligations.Mask) == 0 {
		return in, true
	}
	out := make([]message.Block, 0, len(in))
	for _, b := range in {
		t, ok := b.(*message.Text)
		if !ok {
			return nil, false
		}
		text, _, ok := policy.Mask(t.Text, j.obligations.Mask)
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
	wants := "policy wants parts of it masked (" + strings.Join(j.obligations.Mask, ", ") + "), and it is no JSON in which they could be found"
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
