package turn

import (
	"context"
	"errors"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
)

func TestAttachedFilesAreReadBeforeTheyAreRecorded(t *testing.T) {
	unreadable := errors.New("unreadable")
	n := &Engine{opt: Options{Documents: func(_ context.Context, user, model string, f *message.File) (*message.File, error) {
		if f.Name == "bad" {
			return nil, unreadable
		}
		return &message.File{Name: f.Name, MIME: "text/plain", Data: []byte(user + " " + model)}, nil
	}}}
	there := &message.File{Name: "there", URL: "https://example.org/a.docx"}
	turn := Input{Model: "m", Content: []message.Block{&message.Text{Text: "x"}, &message.Image{Data: []byte("i")}, &message.File{Name: "a", Data: []byte("d")}, there}}
	if err := n.ReadAttached(t.Context(), "ann", turn.Model, turn.Content); err != nil || string(turn.Content[2].(*message.File).Data) != "ann m" || turn.Content[3] != there {
		t.Errorf("%v %+v", err, turn.Content)
	}
	turn.Content[2] = &message.File{Name: "bad", Data: []byte("d")}
	if err := n.ReadAttached(t.Context(), "ann", turn.Model, turn.Content); !errors.Is(err, unreadable) {
		t.Error(err)
	}
	many := Input{}
	for range MaxAttached + 1 {
		many.Content = append(many.Content, &message.Image{Data: []byte("i")})
	}
	large := Input{Content: []message.Block{&message.File{Data: make([]byte, MaxAttachedBytes+1)}}}
	for _, turn := range []Input{many, large} {
		if err := n.ReadAttached(t.Context(), "ann", turn.Model, turn.Content); !fault.HasCode(err, "too_much_attached") {
			t.Error(err)
		}
	}
}
