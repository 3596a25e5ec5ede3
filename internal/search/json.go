package search

import (
	"encoding/json"

	"steward/internal/message"
)

// The JSON form of a page, which docs/guides/search.md describes, follows the types'
// tags, except for the following.

// MarshalJSON implements json.Marshaler.
func (p Page) MarshalJSON() ([]byte, error) {
	type plain Page
	if p.Hits == nil {
		p.Hits = []Hit{}
	}
	return json.Marshal(plain(p))
}

type plainHit Hit

// hitForm is a hit in JSON, with its labels by name.
type hitForm struct {
	plainHit
	Labels []string `json:"labels,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (h Hit) MarshalJSON() ([]byte, error) {
	if h.Spans == nil {
		h.Spans = []Span{}
	}
	return json.Marshal(hitForm{plainHit(h), h.Labels.Names()})
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Hit) UnmarshalJSON(b []byte) error {
	var in hitForm
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*h = Hit(in.plainHit)
	for _, name := range in.Labels {
		l, err := message.ParseLabel(name)
		if err != nil {
			return err
		}
		h.Labels |= l
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (s Span) MarshalJSON() ([]byte, error) { return json.Marshal([2]int{s.From, s.To}) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Span) UnmarshalJSON(b []byte) error {
	var in [2]int
	err := json.Unmarshal(b, &in)
	s.From, s.To = in[0], in[1]
	return err
}
