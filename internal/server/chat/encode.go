package chat

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
)

// The frames are appended by hand: they are the hot path, and reflection
// costs more than the rest of a token's way.

// appendFrame appends the text of a frame of the runtime.
func appendFrame(dst []byte, f *runtime.Frame) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, f.Kind...)
	dst = append(dst, '"')
	dst = appendID(dst, "conversation_id", f.Conversation)
	dst = appendID(dst, "interaction_id", f.Interaction)
	dst = appendID(dst, "message_id", f.Message)
	switch f.Kind {
	case runtime.FrameToken, runtime.FrameReasoning:
		dst = append(dst, `,"block":`...)
		dst = strconv.AppendInt(dst, int64(f.Block), 10)
		dst = appendText(dst, "text", f.Text)
	case runtime.FrameNotice:
		dst = appendText(dst, "text", f.Text)
		if f.Waiting {
			dst = append(dst, `,"waiting":true`...)
		}
	case runtime.FrameUser:
		dst = appendSome(dst, "client_message_id", f.ClientID)
		if f.Stored != nil {
			dst = appendBlocks(append(dst, `,"content":`...), f.Stored.Blocks)
		}
	case runtime.FrameCall, runtime.FrameResult:
		if f.Call != nil {
			dst = appendCall(dst, f.Call)
		}
	case runtime.FrameTask:
		if f.Task != nil {
			dst = appendTask(dst, f.Task)
		}
	case runtime.FrameOpened:
		if f.Stored != nil {
			dst = appendOpened(dst, f.Stored)
		}
	case runtime.FrameComplete:
		if f.Stored != nil {
			dst = appendComplete(dst, f.Stored)
		}
	case runtime.FrameError:
		if f.Err != nil {
			dst = httpauth.AppendMembers(append(dst, ','), httpauth.Public(f.Err))
		}
	}
	dst = append(dst, `,"cursor":"`...)
	dst = f.Cursor.AppendText(dst)
	return append(dst, `"}`...)
}

func appendComplete(dst []byte, m *message.Message) []byte {
	dst = appendText(dst, "content", m.Text())
	dst = appendSome(dst, "model", m.Model)
	dst = appendSome(dst, "stop", string(m.Stop))
	dst = appendSome(dst, "approach", m.Approach)
	dst = append(dst, `,"duration_ms":`...)
	dst = strconv.AppendInt(dst, m.Took.Milliseconds(), 10)
	if list := m.Citations(); len(list) > 0 {
		dst = message.AppendCitations(append(dst, `,"citations":`...), list)
	}
	u := m.TurnUsage()
	dst = append(dst, `,"usage":{"input":`...)
	dst = strconv.AppendInt(dst, u.Input, 10)
	dst = append(dst, `,"output":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	for _, part := range [...]struct {
		name string
		n    int64
	}{
		{`,"reasoning":`, u.Reasoning}, {`,"cache_read":`, u.CacheRead}, {`,"cache_write":`, u.CacheWrite},
	} {
		if part.n != 0 {
			dst = strconv.AppendInt(append(dst, part.name...), part.n, 10)
		}
	}
	return append(dst, '}')
}

func appendCall(dst []byte, v *runtime.CallView) []byte {
	dst = appendText(dst, "id", v.ID)
	dst = appendText(dst, "name", v.Name)
	dst = appendArgs(append(dst, `,"args":`...), v.Args)
	dst = appendText(dst, "status", v.Status)
	dst = appendSome(dst, "message", v.Message)
	if v.Fraction > 0 {
		dst = strconv.AppendFloat(append(dst, `,"progress":`...), v.Fraction, 'g', 4, 64)
	}
	if a := v.Approval; a != nil {
		dst = appendApproval(dst, a, true)
	}
	if r := v.Result; r != nil {
		dst = appendText(dst, "result", r.Text())
		if !textOnly(r.Content) {
			dst = appendBlocks(append(dst, `,"content":`...), r.Content)
		}
		dst = appendSome(dst, "rest", r.Rest)
		for i, name := range r.Denied {
			dst = append(dst, [...]string{`,"denied":[`, ","}[min(i, 1)]...)
			dst = quote(dst, name)
		}
		if len(r.Denied) > 0 {
			dst = append(dst, ']')
		}
	}
	return dst
}

// appendArgs appends the arguments of a call as the object that they are, or
// as a string what is none (yet).
func appendArgs(dst []byte, args string) []byte {
	if v := jsontext.Value(args); v.Kind() == '{' && v.IsValid() {
		if v.Compact() == nil { // a line of text has no need of the model's own line breaks
			return append(dst, v...)
		}
	}
	if args == "" {
		return append(dst, '{', '}')
	}
	return quote(dst, args)
}

func textOnly(blocks []message.Block) bool {
	for _, b := range blocks {
		if _, ok := b.(*message.Text); !ok {
			return false
		}
	}
	return true
}

// appendBlocks appends content as clients write it.
func appendBlocks(dst []byte, blocks []message.Block) []byte {
	dst = append(dst, '[')
	first := true
	for _, b := range blocks {
		mark := len(dst)
		if !first {
			dst = append(dst, ',')
		}
		first = false
		switch b := b.(type) {
		case *message.Text:
			dst = append(dst, `{"type":"text"`...)
			dst = appendText(dst, "text", b.Text)
			if len(b.Citations) > 0 {
				dst = message.AppendCitations(append(dst, `,"citations":`...), b.Citations)
			}
		case *message.Image:
			dst = append(dst, `{"type":"image"`...)
			dst = appendSource(dst, b.MIME, b.Data, b.URL)
		case *message.File:
			dst = append(dst, `{"type":"file"`...)
			dst = appendSome(dst, "name", b.Name)
			dst = appendSource(dst, b.MIME, b.Data, b.URL)
		default:
			dst, first = dst[:mark], mark > 0 && dst[mark-1] == '['
			continue
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendSource(dst []byte, mime string, data []byte, url string) []byte {
	dst = appendSome(dst, "mime", mime)
	if url != "" {
		return appendText(dst, "url", url)
	}
	dst = append(dst, `,"data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// appendAccepted appends the frame that says that a message is durable.
func appendAccepted(dst []byte, a runtime.Accepted, re, clientID string) []byte {
	dst = append(dst, `{"type":"accepted"`...)
	dst = appendSome(dst, "re", re)
	dst = appendID(dst, "conversation_id", a.Conversation)
	dst = appendID(dst, "interaction_id", a.Interaction)
	dst = appendID(dst, "message_id", a.Message)
	dst = appendSome(dst, "client_message_id", clientID)
	dst = append(dst, `,"duplicate":`...)
	dst = strconv.AppendBool(dst, a.Duplicate)
	dst = append(dst, `,"cursor":"`...)
	dst = append(runtime.Cursor{Seq: a.Seq}.AppendText(dst), '"')
	if len(a.Hidden) > 0 {
		dst = append(dst, `,"hidden":`...)
		names, _ := json.Marshal(a.Hidden) // texts only
		dst = append(dst, names...)
	}
	return append(dst, '}')
}

// appendAnswer appends a frame that says no more than its type: ok or pong.
func appendAnswer(dst []byte, typ, re string, conv id.ID) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, typ...)
	dst = append(dst, '"')
	dst = appendSome(dst, "re", re)
	dst = appendID(dst, "conversation_id", conv)
	return append(dst, '}')
}

// appendResumed appends the frame that says from where a conversation is
// followed.
func appendResumed(dst []byte, re string, conv id.ID, from runtime.Cursor) []byte {
	dst = appendAnswer(dst, "ok", re, conv)
	dst = append(dst[:len(dst)-1], `,"cursor":"`...)
	return append(from.AppendText(dst), `"}`...)
}

// appendError appends the frame of an error that a client's frame, or the
// watch of a conversation, has met.
func appendError(dst []byte, err error, re string, conv id.ID) []byte {
	dst = append(dst, `{"type":"error"`...)
	dst = appendSome(dst, "re", re)
	dst = appendID(dst, "conversation_id", conv)
	dst = httpauth.AppendMembers(append(dst, ','), httpauth.Public(err))
	return append(dst, '}')
}

func appendText(dst []byte, name, s string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return quote(dst, s)
}

func appendSome(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	return appendText(dst, name, s)
}

func appendID(dst []byte, name string, x id.ID) []byte {
	if x.Zero() {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':', '"')
	return append(x.AppendText(dst), '"')
}

// quote appends a JSON string. Bytes that are no UTF-8 become U+FFFD, which
// is all that its error would say.
func quote(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
