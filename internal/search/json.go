package search

import (
	"encoding/json"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// pageForm is a page as JSON, the same on the command line and over HTTP.
type pageForm struct {
	Hits   []hitForm `json:"hits"`
	Next   Cursor    `json:"next,omitzero"`
	Behind uint64    `json:"behind,omitzero"`
}

type lineForm struct {
	ID   string       `json:"id"` // of the message
	Role message.Role `json:"role"`
	Tool string       `json:"tool,omitzero"`
	At   time.Time    `json:"at,omitzero"`
	Text string       `json:"text"`
}

type hitForm struct {
	lineForm
	URI          resource.URI `json:"uri"`
	Conversation string       `json:"conversation_id"`
	Title        string       `json:"title"`
	Interaction  string       `json:"interaction_id"`
	Seq          uint64       `json:"seq"`
	Labels       []string     `json:"labels,omitempty"`
	Spans        [][2]int     `json:"spans"`
	Before       []lineForm   `json:"before,omitempty"`
	After        []lineForm   `json:"after,omitempty"`
}

// MarshalJSON implements json.Marshaler; docs/search.md describes the form.
func (p Page) MarshalJSON() ([]byte, error) {
	out := pageForm{Hits: make([]hitForm, len(p.Hits)), Next: p.Next, Behind: p.Behind}
	for i, h := range p.Hits {
		f := &out.Hits[i]
		*f = hitForm{lineForm: h.Line.form(), URI: h.URI, Conversation: h.Conversation.String(), Title: h.Title,
			Interaction: h.Interaction.String(), Seq: h.Seq, Labels: h.Labels.Names(), Spans: make([][2]int, len(h.Spans)),
			Before: forms(h.Before), After: forms(h.After)}
		for j, s := range h.Spans {
			f.Spans[j] = [2]int{s.From, s.To}
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Page) UnmarshalJSON(b []byte) error {
	var in pageForm
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*p = Page{Next: in.Next, Behind: in.Behind}
	for _, f := range in.Hits {
		h := Hit{Line: f.line(), URI: f.URI, Title: f.Title, Seq: f.Seq, Before: lines(f.Before), After: lines(f.After)}
		h.Conversation, _ = id.Parse(f.Conversation)
		h.Interaction, _ = id.Parse(f.Interaction)
		for _, name := range f.Labels {
			l, err := message.ParseLabel(name)
			if err != nil {
				return err
			}
			h.Labels |= l
		}
		for _, s := range f.Spans {
			h.Spans = append(h.Spans, Span{s[0], s[1]})
		}
		p.Hits = append(p.Hits, h)
	}
	return nil
}

func (l Line) form() lineForm {
	return lineForm{l.Message.String(), l.Role, l.Tool, l.At, l.Text}
}

func (f lineForm) line() Line {
	l := Line{Role: f.Role, Tool: f.Tool, At: f.At, Text: f.Text}
	l.Message, _ = id.Parse(f.ID)
	return l
}

func forms(list []Line) []lineForm {
	var out []lineForm
	for _, l := range list {
		out = append(out, l.form())
	}
	return out
}

func lines(list []lineForm) []Line {
	var out []Line
	for _, f := range list {
		out = append(out, f.line())
	}
	return out
}
