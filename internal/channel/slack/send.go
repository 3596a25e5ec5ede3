package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"steward/internal/channel"
	"steward/internal/channel/markup"
	"steward/internal/channel/rest"
	"steward/internal/fault"
)

// maxText is how long the text of a section block may be, which a message with buttons needs. A message
// without blocks could be a third longer, before Slack cuts it.
const maxText = 3000

func (a *adapter) Render(markdown string) []string { return dialect().Render(markdown) }

// dialect is mrkdwn, Slack's own markup.
func dialect() markup.Dialect {
	return markup.Dialect{Limit: maxText, Size: markup.UTF16, Run: run, Code: code, Quote: quote}
}

// escape escapes the three characters of mrkdwn that can be. Three grave accents would begin a block of
// code, so an invisible character stands between them.
func escape(s string) string {
	s = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
	return strings.ReplaceAll(s, "```", "`\u200b`\u200b`")
}

func run(r markup.Run, before, after rune) string {
	lines := strings.Split(r.Text, "\n")
	for i, line := range lines {
		b, a := rune(0), rune(0)
		if i == 0 {
			b = before
		}
		if i == len(lines)-1 {
			a = after
		}
		lines[i] = styled(r, line, b, a)
	}
	return strings.Join(lines, "\n")
}

// styled writes a piece of one line. mrkdwn has styles only for whole words, and none of them at spaces, so
// a style that would be shown as its marks is left out.
func styled(r markup.Run, line string, before, after rune) string {
	text := strings.TrimSpace(line)
	if text == "" {
		return line
	}
	i := strings.Index(line, text)
	left, right := line[:i], line[i+len(text):]
	out := escape(text)
	open := (left != "" || edge(before)) && (right != "" || edge(after))
	mark := func(style markup.Style, with string) {
		if r.Style&style != 0 && open && !strings.Contains(text, with) {
			out = with + out + with
		}
	}
	mark(markup.Code, "`")
	mark(markup.Struck, "~")
	mark(markup.Italic, "_")
	mark(markup.Bold, "*")
	if r.Link != "" {
		out = "<" + escape(r.Link) + "|" + strings.ReplaceAll(out, "|", "¦") + ">"
	}
	return left + out + right
}

// edge reports whether a style may begin or end beside a character.
func edge(r rune) bool {
	return r == 0 || unicode.IsSpace(r) || strings.ContainsRune("()[]{}.,;:!?\"'–—/-", r)
}

func code(_, text string) string { return "```\n" + escape(text) + "\n```" }

func quote(inner string) string { return "> " + strings.ReplaceAll(inner, "\n", "\n> ") }

// place returns the arguments that name a conversation and a thread in it.
func place(at channel.Address) (map[string]any, error) {
	if at.Chat == "" || strings.Trim(at.Chat, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		return nil, channel.Rejected(service, "there is no conversation "+at.Chat)
	}
	args := map[string]any{"channel": at.Chat}
	if at.Thread != "" {
		if !validTS(at.Thread) {
			return nil, channel.Rejected(service, "there is no thread "+at.Thread)
		}
		args["thread_ts"] = at.Thread
	}
	return args, nil
}

func (a *adapter) Send(ctx context.Context, m channel.Outgoing) (string, error) {
	args, err := place(m.At)
	if err != nil {
		return "", err
	}
	for _, f := range m.Attachments {
		if len(f.Data) > maxFile {
			return "", channel.Rejected(service, fmt.Sprintf("%s has more than %d MB", f.Name, maxFile>>20))
		}
	}
	var files []uploaded
	for _, f := range m.Attachments {
		u, err := a.upload(ctx, f)
		if err != nil {
			return "", err
		}
		files = append(files, u)
	}
	var id string
	if m.Text != "" || len(m.Buttons) > 0 || len(files) == 0 {
		fill(args, m)
		if len(m.Buttons) == 0 {
			delete(args, "blocks")
		}
		args["unfurl_links"], args["unfurl_media"] = false, false
		var out struct {
			TS string `json:"ts"`
		}
		if err := a.callJSON(ctx, "chat.postMessage", args, &out); err != nil {
			return "", err
		}
		if !validTS(out.TS) {
			return "", channel.Uncertain(service, fmt.Errorf("the answer names no message"))
		}
		id = out.TS
	}
	if len(files) == 0 {
		return id, nil
	}
	if err := a.share(ctx, m.At, files); err != nil {
		if id == "" {
			return "", err
		}
		return "", channel.Uncertain(service, fmt.Errorf("the message is posted without its files: %w", err))
	}
	if id == "" {
		id = files[0].ID // Slack does not say which message shows it
	}
	return id, nil
}

// fill sets the text, and blocks if there are buttons. Without buttons there are no blocks, also where a
// message had some before.
func fill(args map[string]any, m channel.Outgoing) {
	args["text"] = m.Text
	args["blocks"] = []any{}
	if len(m.Buttons) == 0 {
		return
	}
	type object = map[string]any
	var buttons []object
	for i, b := range m.Buttons {
		label := []rune(b.Label)
		if len(label) > 75 {
			label = append(label[:74], '…')
		}
		buttons = append(buttons, object{"type": "button", "action_id": "steward-" + strconv.Itoa(i), "value": b.Data,
			"text": object{"type": "plain_text", "text": string(label), "emoji": false}})
	}
	blocks := []object{}
	if m.Text != "" {
		blocks = append(blocks, object{"type": "section", "text": object{"type": "mrkdwn", "text": m.Text}})
	}
	args["blocks"] = append(blocks, object{"type": "actions", "elements": buttons})
}

func (a *adapter) Edit(ctx context.Context, at channel.Address, id string, m channel.Outgoing) error {
	args, err := place(channel.Address{Chat: at.Chat})
	if err != nil {
		return err
	}
	if !validTS(id) {
		return channel.Rejected(service, "there is no message "+id)
	}
	args["ts"] = id
	fill(args, m)
	return a.callJSON(ctx, "chat.update", args, nil)
}

// uploaded is a file that is uploaded and not yet shown.
type uploaded struct {
	ID    string `json:"id"`
	Title string `json:"title"`
}

// upload uploads a file. Nobody sees it yet, so no failure is uncertain.
func (a *adapter) upload(ctx context.Context, f channel.Attachment) (uploaded, error) {
	name := f.Name
	if name == "" {
		name = "file"
	}
	var out struct {
		URL string `json:"upload_url"`
		ID  string `json:"file_id"`
	}
	err := a.call(ctx, "files.getUploadURLExternal", url.Values{"filename": {name}, "length": {strconv.Itoa(len(f.Data))}}, &out)
	if err != nil {
		return uploaded{}, unseen(err)
	}
	if out.ID == "" || !a.ours(out.URL) {
		return uploaded{}, channel.Unreachable(service, fmt.Errorf("the answer does not say where to upload a file"))
	}
	ctx, cancel := context.WithTimeout(ctx, uploadLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, out.URL, bytes.NewReader(f.Data))
	if err != nil {
		return uploaded{}, err
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	answer, err := rest.Do(a.client, service, r, maxAnswer)
	if err != nil {
		return uploaded{}, unseen(err)
	}
	if answer.Status != http.StatusOK {
		return uploaded{}, channel.Unreachable(service, fmt.Errorf("the file is not accepted: status %d", answer.Status))
	}
	return uploaded{ID: out.ID, Title: name}, nil
}

// unseen converts an uncertain failure of something that nobody sees.
func unseen(err error) error {
	if fault.HasCode(err, "channel_uncertain") {
		return channel.Unreachable(service, err)
	}
	return err
}

// share shows files in a conversation.
func (a *adapter) share(ctx context.Context, at channel.Address, files []uploaded) error {
	list, err := json.Marshal(files)
	if err != nil {
		return err
	}
	args := url.Values{"files": {string(list)}, "channel_id": {at.Chat}}
	if at.Thread != "" {
		args.Set("thread_ts", at.Thread)
	}
	return a.call(ctx, "files.completeUploadExternal", args, nil)
}
