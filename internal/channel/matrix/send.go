package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"

	"steward/internal/channel"
	"steward/internal/channel/markup"
	"steward/internal/channel/rest"
	"steward/internal/channel/wire"
)

// Send implements channel.Channel. Files are uploaded before anything is posted.
func (m *Matrix) Send(ctx context.Context, out channel.Outgoing) (string, error) {
	var contents []*event.MessageEventContent
	if out.Text != "" {
		contents = append(contents, textContent(out))
	}
	for _, a := range out.Attachments {
		content, err := m.upload(ctx, a)
		if err != nil {
			return "", err
		}
		contents = append(contents, content)
	}
	if len(contents) == 0 {
		return "", channel.Rejected(service, "the message is empty")
	}
	var message string
	for i, content := range contents {
		content.Mentions = &event.Mentions{} // nobody is mentioned, whatever the text contains
		content.RelatesTo = relation(out)
		key := out.Key
		if i > 0 {
			key = fmt.Sprintf("%s.%d", out.Key, i)
		}
		posted, err := m.post(ctx, id.RoomID(out.At.Chat), key, content)
		if err != nil {
			return "", err
		}
		if i == 0 {
			message = posted
		}
	}
	return message, nil
}

// textContent returns the event of a text: HTML, and what it shows.
func textContent(out channel.Outgoing) *event.MessageEventContent {
	content := &event.MessageEventContent{MsgType: event.MsgText}
	if out.Silent {
		content.MsgType = event.MsgNotice // the default push rules leave notices out
	}
	var styled bool
	if content.Body, styled = markup.Plain(out.Text); styled {
		content.Format, content.FormattedBody = event.FormatHTML, out.Text
	}
	return content
}

// relation says which thread a message belongs to and what it answers; nil: neither.
func relation(out channel.Outgoing) *event.RelatesTo {
	reply, thread := id.EventID(out.ReplyTo), id.EventID(out.At.Thread)
	if reply == "" && thread == "" {
		return nil
	}
	r := &event.RelatesTo{}
	if thread != "" {
		r.SetThread(thread, thread)
	}
	if reply != "" {
		r.SetReplyTo(reply)
	}
	return r
}

// post sends one event under a transaction ID.
func (m *Matrix) post(ctx context.Context, at id.RoomID, key string, content *event.MessageEventContent) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var connected atomic.Bool // without a connection, nothing can have been posted
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	posted, err := m.client.SendMessageEvent(ctx, at, event.EventMessage, content, mautrix.ReqSendEvent{TransactionID: key})
	if err == nil && posted.EventID != "" {
		return posted.EventID.String(), nil
	}
	if a, ok := answerOf(err); ok {
		if refused := a.refused(); refused != nil {
			return "", refused
		}
	}
	if err == nil {
		err = errors.New("the answer names no event")
	}
	if connected.Load() {
		return "", channel.Uncertain(service, err)
	}
	return "", channel.Unreachable(service, err)
}

// upload puts a file into the server's store and returns the event that shows it.
func (m *Matrix) upload(ctx context.Context, a channel.Attachment) (*event.MessageEventContent, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	if len(a.Data) > maxAttachment {
		return nil, channel.Rejected(service, "the file is too large")
	}
	media := a.MediaType
	if media == "" {
		media = http.DetectContentType(a.Data)
	}
	name := wire.Line(a.Name)
	if name == "" {
		name = "file"
	}
	stored, err := m.client.UploadMedia(ctx, mautrix.ReqUploadMedia{Content: bytes.NewReader(a.Data), ContentLength: int64(len(a.Data)), ContentType: media, FileName: name})
	if err != nil {
		if answer, ok := answerOf(err); ok {
			if refused := answer.refused(); refused != nil {
				return nil, refused
			}
		}
		return nil, channel.Unreachable(service, err) // nothing was posted, whatever the store has
	}
	content := &event.MessageEventContent{MsgType: event.MsgFile, Body: name, FileName: name, URL: stored.ContentURI.CUString(),
		Info: &event.FileInfo{MimeType: media, Size: len(a.Data)}}
	kind, _, _ := strings.Cut(media, "/")
	switch kind {
	case "image":
		content.MsgType = event.MsgImage
	case "video":
		content.MsgType = event.MsgVideo
	case "audio":
		if content.MsgType = event.MsgAudio; a.Voice {
			content.MSC3245Voice = &event.MSC3245Voice{}
		}
	}
	return content, nil
}

// Edit implements channel.Channel.
func (m *Matrix) Edit(ctx context.Context, at channel.Address, message string, out channel.Outgoing) error {
	content := textContent(out)
	content.Mentions = &event.Mentions{}
	content.SetEdit(id.EventID(message))
	_, err := m.post(ctx, id.RoomID(at.Chat), m.client.TxnID(), content)
	return err
}

// Typing implements channel.Channel.
func (m *Matrix) Typing(ctx context.Context, at channel.Address) error {
	me, err := m.self(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path := m.client.BuildClientURL("v3", "rooms", id.RoomID(at.Chat), "typing", me)
	_, err = m.client.MakeRequest(ctx, http.MethodPut, path, &mautrix.ReqTyping{Typing: true, Timeout: (10 * time.Second).Milliseconds()}, nil)
	if err != nil {
		return failed(err)
	}
	return nil
}

// Fetch implements channel.Channel. Media are authenticated (version 1.11 of the specification).
func (m *Matrix) Fetch(ctx context.Context, a channel.Attachment) (io.ReadCloser, error) {
	uri, err := id.ParseContentURI(a.Ref)
	if err != nil || uri.IsEmpty() {
		return nil, channel.Rejected(service, "the address of the file is invalid")
	}
	resp, err := m.client.Download(ctx, uri)
	if err != nil {
		if refused, ok := answerOf(err); ok && refused.status == http.StatusNotFound {
			return nil, channel.Rejected(service, "the file does not exist any more")
		}
		return nil, failed(err)
	}
	return &rest.File{ReadCloser: resp.Body, Limit: maxAttachment}, nil
}

// Render implements channel.Channel. A part is HTML of the elements that the specification allows in
// messages.
func (m *Matrix) Render(markdown string) []string { return markup.HTML(markdown, maxText) }
