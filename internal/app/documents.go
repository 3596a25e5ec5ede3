package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"steward/internal/extract"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/settings"
)

// attached turns attached files that a model cannot read into text.
type attached struct {
	node   *Local
	set    *settings.Loaded
	client func(provider string) *http.Client
	allow  func(ctx context.Context, model string, r *llm.Request) error // the policy for models
}

func (a *App) attached(l *Local, set *settings.Loaded) *attached {
	shared := a.modelClient()
	return &attached{node: l, set: set, client: func(name string) *http.Client { return a.clientFor(name, shared) }, allow: ModelGate(l.Judge, Places(set))}
}

// read returns what a PDF, a Word file or a recording says, as a text file of the same name. Other
// files, and those that the model reads itself, it returns as they are.
func (d *attached) read(ctx context.Context, user, model string, f *message.File) (*message.File, error) {
	vendor := d.vendorOf(model)
	kind, _, _ := strings.Cut(f.MIME, ";")
	switch {
	case reads(vendor, kind):
		return f, nil
	case strings.HasPrefix(kind, "audio/"):
		text, err := d.transcribe(ctx, user, vendor, f)
		if err != nil {
			return nil, err
		}
		return asText(f, "text/plain", "A transcript of the recording:\n"+text), nil
	case kind != "application/pdf" && kind != message.DOCX:
		return f, nil
	}
	doc, err := d.node.reader.Read(ctx, extract.Input{Data: f.Data, MediaType: f.MIME})
	switch {
	case err != nil:
		e := fault.Of(err)
		return nil, fault.New(e.Kind, e.Code, "%.200s cannot be attached: %w", f.Name, err)
	case doc.Text == "":
		return nil, fault.New(fault.Unsupported, "document_without_text", "%.200s has no text, only pictures", f.Name).
			WithHint("attach its pages as images, or choose a model of %s, which read PDF files", AnyOf(Vendors().All(), func(v llm.Vendor) string {
				if reads(v, "application/pdf") {
					return v.Title
				}
				return ""
			}))
	case doc.Truncated:
		doc.Text += "\n[the rest is cut off]"
	}
	return asText(f, "text/markdown", doc.Text), nil
}

func asText(f *message.File, mime, text string) *message.File {
	return &message.File{Common: f.Common, MIME: mime, Name: f.Name, Data: []byte(text)}
}

// reads reports whether a vendor's models read files of a type.
func reads(v llm.Vendor, kind string) bool {
	family, _, _ := strings.Cut(kind, "/")
	return slices.Contains(v.Documents, kind) || slices.Contains(v.Documents, family+"/*")
}

// vendorOf returns the vendor that a message is for.
func (d *attached) vendorOf(model string) llm.Vendor {
	if r, err := d.node.Found.Resolve(model); err == nil {
		model = r.Models[0]
	}
	name, _, _ := strings.Cut(model, "/")
	v, _ := Vendors().Named(name)
	return v
}

// Limits of a transcription.
const (
	transcribeTimeout = 3 * time.Minute
	maxTranscript     = 1 << 20 // bytes
)

// transcribe transcribes a recording with a server that speaks OpenAI's protocol
// (https://platform.openai.com/docs/api-reference/audio/createTranscription).
func (d *attached) transcribe(ctx context.Context, user string, vendor llm.Vendor, f *message.File) (string, error) {
	full := ""
	if use := d.set.Models["transcribe"].Use; len(use) > 0 {
		full = use[0]
	} else if vendor.Presets.Transcribe != "" {
		full = vendor.Name + "/" + vendor.Presets.Transcribe
	}
	name, model, _ := strings.Cut(full, "/")
	p := d.set.Providers[name]
	by := Vendors().For(name, p.Dialect)
	if p.BaseURL == "" && by.Access == llm.ByKey {
		p.BaseURL = by.BaseURL
	}
	if full == "" || p.Off || p.BaseURL == "" || by.Transcriptions == "" {
		return "", fault.New(fault.Unsupported, "audio_unsupported", "%.200s is a recording, and no model here can transcribe it", f.Name).
			WithHint("name a model that transcribes: models: {transcribe: openai/gpt-4o-mini-transcribe}, or that of a server of your own")
	}
	if err := d.allow(ctx, full, &llm.Request{User: user, Labels: message.Private | message.Untrusted}); err != nil {
		return "", err
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", path.Base(fileName(f)))
	if err == nil {
		_, err = part.Write(f.Data)
	}
	if err = errors.Join(err, form.WriteField("model", model), form.WriteField("response_format", "json"), form.Close()); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, transcribeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(p.BaseURL, "/")+by.Transcriptions, &body)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	if key := p.Key.Reveal(); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	failed := func(format string, args ...any) error {
		return fault.New(fault.Unavailable, "transcription_failed", "%.200s could not be transcribed by %s: %w", f.Name, full, fmt.Errorf(format, args...)).
			WithHint("try again, or name another model as models.transcribe")
	}
	res, err := d.client(name).Do(req)
	if err != nil {
		return "", failed("%w", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxTranscript+1))
	var out struct{ Text *string }
	switch {
	case err != nil:
		return "", failed("%w", err)
	case res.StatusCode != http.StatusOK:
		return "", failed("it answers %s: %.300s", res.Status, b)
	case len(b) > maxTranscript:
		return "", failed("its answer is longer than %d MB", maxTranscript>>20)
	case json.Unmarshal(b, &out) != nil || out.Text == nil:
		return "", failed("its answer is not a transcript: %.300s", b)
	}
	return *out.Text, nil
}

// fileName returns the name of a recording. Servers tell its format by the extension.
func fileName(f *message.File) string {
	kind, _, _ := strings.Cut(f.MIME, ";")
	kind = strings.TrimPrefix(strings.TrimPrefix(kind, "audio/"), "x-")
	if path.Ext(f.Name) != "" {
		return f.Name
	}
	return "recording." + cmp.Or(map[string]string{"mpeg": "mp3", "mp4": "m4a", "wave": "wav"}[kind], kind)
}
