package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"mime/multipart"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"

	"steward/internal/channel"
	"steward/internal/channel/markup"
)

const (
	maxText    = 4096 // units of UTF-16 of a message
	maxCaption = 1024
	maxPhoto   = 10 << 20
)

func (a *adapter) Render(markdown string) []string { return dialect().Render(markdown) }

// dialect is HTML as the Bot API reads it. The characters of tags are counted too, although Telegram does
// not count them, so a message is never too long.
func dialect() markup.Dialect {
	return markup.Dialect{Limit: maxText, Size: markup.UTF16, Run: run, Code: code,
		Quote: func(inner string) string { return "<blockquote>" + inner + "</blockquote>" }}
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

func run(r markup.Run, _, _ rune) string {
	s := escape(r.Text)
	if strings.TrimSpace(r.Text) == "" {
		return s
	}
	if r.Style&markup.Code != 0 {
		return "<code>" + s + "</code>" // code contains no other style
	}
	for _, t := range []struct {
		style markup.Style
		tag   string
	}{{markup.Struck, "s"}, {markup.Italic, "i"}, {markup.Bold, "b"}} {
		if r.Style&t.style != 0 {
			s = "<" + t.tag + ">" + s + "</" + t.tag + ">"
		}
	}
	if r.Link != "" {
		s = `<a href="` + escape(r.Link) + `">` + s + "</a>"
	}
	return s
}

var languageForm = regexp.MustCompile(`^[A-Za-z0-9+#_.-]{1,30}$`)

func code(lang, text string) string {
	if languageForm.MatchString(lang) {
		return `<pre><code class="language-` + lang + `">` + escape(text) + "</code></pre>"
	}
	return "<pre>" + escape(text) + "</pre>"
}

func (a *adapter) Send(ctx context.Context, m channel.Outgoing) (string, error) {
	p, err := place(m.At)
	if err != nil {
		return "", err
	}
	for _, f := range m.Attachments {
		if len(f.Data) > maxFile {
			return "", channel.Rejected(service, fmt.Sprintf("%s has more than %d MB", f.Name, maxFile>>20))
		}
	}
	if m.Silent {
		p["disable_notification"] = true
	}
	if m.ReplyTo != "" {
		n, err := strconv.ParseInt(m.ReplyTo, 10, 64)
		if err != nil {
			return "", channel.Rejected(service, "there is no message "+m.ReplyTo)
		}
		// A question that was deleted is answered all the same.
		p["reply_parameters"] = map[string]any{"message_id": n, "allow_sending_without_reply": true}
	}
	if len(m.Buttons) > 0 {
		p["reply_markup"] = keyboard(m.Buttons)
	}
	files := m.Attachments
	var id string
	if len(files) > 0 && markup.UTF16(m.Text) <= maxCaption {
		if m.Text != "" {
			p["caption"], p["parse_mode"] = m.Text, "HTML"
		}
		id, err = a.upload(ctx, p, files[0])
		files = files[1:]
	} else {
		id, err = a.sendText(ctx, p, m.Text)
	}
	if err != nil {
		return "", err
	}
	for _, f := range files {
		p, _ := place(m.At)
		p["disable_notification"] = true
		if _, err := a.upload(ctx, p, f); err != nil {
			return "", channel.Uncertain(service, fmt.Errorf("the message is posted without %s: %w", f.Name, err))
		}
	}
	return id, nil
}

func keyboard(buttons []channel.Button) map[string]any {
	type button struct {
		Text string `json:"text"`
		Data string `json:"callback_data"`
	}
	rows := [][]button{}
	for i, b := range buttons {
		// Two short ones stand beside each other; on a phone, longer ones would be cut.
		if k := len(rows) - 1; k >= 0 && len(rows[k]) == 1 && len([]rune(b.Label)) <= 18 && len([]rune(buttons[i-1].Label)) <= 18 {
			rows[k] = append(rows[k], button{b.Label, b.Data})
			continue
		}
		rows = append(rows, []button{{b.Label, b.Data}})
	}
	return map[string]any{"inline_keyboard": rows}
}

// posted is the answer to a method that posts.
type posted struct {
	ID int64 `json:"message_id"`
}

func (p posted) id() (string, error) {
	if p.ID == 0 {
		return "", channel.Uncertain(service, fmt.Errorf("the answer names no message"))
	}
	return strconv.FormatInt(p.ID, 10), nil
}

func (a *adapter) sendText(ctx context.Context, p map[string]any, text string) (string, error) {
	p["text"], p["parse_mode"] = text, "HTML"
	p["link_preview_options"] = map[string]any{"is_disabled": true}
	var out posted
	err := a.call(ctx, "sendMessage", p, &out)
	if says(err, "can't parse entities") { // it is not posted; better plain than not at all
		delete(p, "parse_mode")
		p["text"] = plain(text)
		err = a.call(ctx, "sendMessage", p, &out)
	}
	if err != nil {
		return "", err
	}
	return out.id()
}

var tag = regexp.MustCompile(`</?[a-z][^>]*>`)

// plain removes the tags of a text.
func plain(text string) string { return html.UnescapeString(tag.ReplaceAllString(text, "")) }

// upload posts a file.
func (a *adapter) upload(ctx context.Context, p map[string]any, f channel.Attachment) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadLimit)
	defer cancel()
	method, field := methodFor(f)
	var out posted
	err := a.multipart(ctx, method, field, p, f, &out)
	if method == "sendPhoto" && says(err, "photo") { // Telegram does not take every picture as a photo
		err = a.multipart(ctx, "sendDocument", "document", p, f, &out)
	}
	if err != nil {
		return "", err
	}
	return out.id()
}

func methodFor(f channel.Attachment) (method, field string) {
	switch {
	case f.Voice && (f.MediaType == "audio/ogg" || f.MediaType == "audio/mpeg" || f.MediaType == "audio/mp4"):
		return "sendVoice", "voice"
	case (f.MediaType == "image/jpeg" || f.MediaType == "image/png") && len(f.Data) <= maxPhoto:
		return "sendPhoto", "photo"
	}
	return "sendDocument", "document"
}

func (a *adapter) multipart(ctx context.Context, method, field string, p map[string]any, f channel.Attachment, result any) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, v := range p {
		s, ok := v.(string)
		if !ok {
			js, err := json.Marshal(v)
			if err != nil {
				return err
			}
			s = string(js)
		}
		if err := form.WriteField(name, s); err != nil {
			return err
		}
	}
	header := textproto.MIMEHeader{}
	name := f.Name
	if name == "" {
		name = "file"
	}
	header.Set("Content-Disposition", multipart.FileContentDisposition(field, name))
	if f.MediaType != "" {
		header.Set("Content-Type", f.MediaType)
	}
	w, err := form.CreatePart(header)
	if err != nil {
		return err
	}
	if _, err := w.Write(f.Data); err != nil {
		return err
	}
	if err := form.Close(); err != nil {
		return err
	}
	return a.post(ctx, method, form.FormDataContentType(), body.Bytes(), result)
}

func (a *adapter) Edit(ctx context.Context, at channel.Address, id string, m channel.Outgoing) error {
	p, err := place(channel.Address{Chat: at.Chat})
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return channel.Rejected(service, "there is no message "+id)
	}
	p["message_id"], p["parse_mode"] = n, "HTML"
	p["text"] = m.Text
	p["link_preview_options"] = map[string]any{"is_disabled": true}
	if len(m.Buttons) > 0 {
		p["reply_markup"] = keyboard(m.Buttons)
	}
	err = a.call(ctx, "editMessageText", p, nil)
	if says(err, "no text in the message") { // it is the caption of a file
		delete(p, "text")
		delete(p, "link_preview_options")
		p["caption"] = m.Text
		err = a.call(ctx, "editMessageCaption", p, nil)
	}
	if says(err, "message is not modified") {
		return nil
	}
	return err
}
