package edge_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// inputs are a picture, a PDF file, a Word file and a recording.
func inputs(t *testing.T) map[string][]byte {
	var word bytes.Buffer
	z := zip.NewWriter(&word)
	w, err := z.Create("word/document.xml")
	if err == nil {
		_, err = fmt.Fprint(w, `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>The rent is 700.</w:t></w:r></w:p></w:body></w:document>`)
	}
	if err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"image/png": []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"), "application/pdf": []byte("%PDF-1.4\n"),
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document": word.Bytes(), "audio/wav": []byte("RIFF\x00\x00\x00\x00WAVE")}
}

// Pictures and PDF files reach a model that sees them; Word files and recordings reach it as text. It is
// the same over the WebSocket and OpenAI's API.
func TestPicturesAndPapersAreInput(t *testing.T) {
	t.Parallel()
	var body atomic.Value
	script := edge.Script(t, func(in edge.Asked) edge.Reply { body.Store(string(in.Body)); return edge.Reply{Text: "seen"} })
	n := edge.Serve(t, edge.Options{Model: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/audio/transcriptions" {
			fmt.Fprint(w, `{"text":"Call me back."}`)
			return
		}
		script.ServeHTTP(w, r)
	})})
	var blocks, parts []any
	for media, data := range inputs(t) {
		text := base64.StdEncoding.EncodeToString(data)
		url := "data:" + media + ";base64," + text
		kind := "file"
		switch media {
		case "image/png":
			kind = "image"
			parts = append(parts, map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}})
		case "audio/wav":
			parts = append(parts, map[string]any{"type": "input_audio", "input_audio": map[string]any{"format": "wav", "data": text}})
		default:
			parts = append(parts, map[string]any{"type": "file", "file": map[string]any{"filename": "paper", "file_data": url}})
		}
		blocks = append(blocks, map[string]any{"type": kind, "mime": media, "data": text})
	}
	check := func(face string) {
		t.Helper()
		for _, want := range []string{"data:image/png;base64,", "data:application/pdf;base64,", "The rent is 700.", "Call me back."} {
			if got := body.Load().(string); !strings.Contains(got, want) {
				t.Errorf("over %s the model is not given %s: %s", face, want, got)
			}
		}
		body.Store("")
	}
	if a := n.Dial().Turn(map[string]any{"content": blocks}, nil); a.Text != "seen" {
		t.Fatalf("%+v", a)
	}
	check("the WebSocket")
	if status, c := complete(t, n, map[string]any{"model": "default", "messages": []any{map[string]any{"role": "user", "content": parts}}}); status != http.StatusOK || c.Choices[0].Message.Content != "seen" {
		t.Fatalf("%d %+v", status, c)
	}
	check("OpenAI's API")
}
