package effect

import (
	"slices"
	"strings"

	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/tool"
)

// addObligations adds a decision's obligations to those that the result must meet. The
// obligations of all decisions about the call accumulate.
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

// limit returns how many bytes of the result's text the model is shown.
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

// masked returns a result's content with the fields masked that policy hides. It returns
// false if the content is not of a form in which the fields can be found.
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

// withheld returns the result for content whose fields policy wants masked but cannot be
// found. It contains nothing of the tool's output.
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
