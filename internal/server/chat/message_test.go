package chat

import (
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/server/httpauth"
)

// Whatever a client sends as a message is refused with a code, or becomes a
// message that holds by the rules of messages.
func FuzzMessageFrame(f *testing.F) {
	for _, s := range []string{
		`{"type":"message","content":"hello"}`, `{"type":"message","content":[{"type":"text","text":"a"},{"type":"image","mime":"image/png","data":"aGk="}]}`,
		`{"type":"message","content":[{"type":"image","url":"https://x/y.gif"},{"type":"file","url":"http://x"}],"sampling":{"temperature":1,"stop":["a"]},"steer":true}`,
		`{"type":"message","conversation_id":"00000000-0000-7000-8000-000000000001","message_id":"m","content":"\u0000"}`, `{"content":{}}`,
		`{"conversation_id":"00000000-0000-7000-8000-000000000001","regenerate":"00000000-0000-7000-8000-000000000002"}`,
		`{"conversation_id":"00000000-0000-7000-8000-000000000001","content":"x","replace":"00000000-0000-7000-8000-000000000002"}`, `{"content":[null]}`, "{\"content\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var fr messageFrame
		err := httpauth.Unmarshal(data, &fr)
		if err == nil {
			turn, terr := fr.turn()
			if err = terr; err == nil {
				m := &message.Message{ID: id.ID{1}, Role: message.User, Blocks: turn.Content}
				if again := !turn.Regenerate.Zero(); again && len(turn.Content) > 0 || again && !turn.Replace.Zero() || turn.Replace.String() != fr.Replace || turn.Regenerate.String() != fr.Regenerate {
					t.Fatalf("%s: %+v", data, turn)
				} else if again {
					m.Blocks = []message.Block{&message.Text{}}
				}
				if err := message.Validate(m); err != nil {
					t.Fatalf("%s: %v", data, err)
				}
				if turn.Conversation.String() != fr.Conversation {
					t.Fatalf("%s: %+v", data, turn)
				}
			}
		}
		if err != nil && (fault.Of(err).Code == "internal" || fault.Of(err).Code == "") {
			t.Fatalf("%s: %v", data, err)
		}
	})
}
