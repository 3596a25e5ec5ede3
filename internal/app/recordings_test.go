package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/settings"
)

// hearing returns documents of a node with a server that answers transcriptions
// (https://platform.openai.com/docs/api-reference/audio/createTranscription).
func hearing(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *attached {
	s := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(s.Close)
	set := &settings.Loaded{Settings: settings.Defaults()}
	set.Providers = map[string]settings.Provider{"box": {BaseURL: s.URL + "/v1", Key: "secret-key"}}
	set.Models = map[string]settings.Alias{"transcribe": {Use: []string{"box/whisper"}}}
	aliases := map[string]llm.Alias{"default": {Models: []string{"ollama/x"}}}
	models, err := llm.New(llm.Config{Vendors: Vendors(), Aliases: aliases})
	if err != nil {
		t.Fatal(err)
	}
	found := &Supply{Models: models, Aliases: aliases}
	return &attached{node: &Local{Found: found}, set: set, client: func(string) *http.Client { return s.Client() }, allow: func(context.Context, string, *llm.Request) error { return nil }}
}

func TestRecordingsAreTranscribed(t *testing.T) {
	d := hearing(t, func(w http.ResponseWriter, r *http.Request) {
		f, head, err := r.FormFile("file")
		if err != nil || r.URL.Path != "/v1/audio/transcriptions" || r.Header.Get("Authorization") != "Bearer secret-key" || r.FormValue("model") != "whisper" {
			t.Errorf("%v %s %v", err, r.URL, r.Form)
			return
		}
		b, _ := io.ReadAll(f)
		fmt.Fprintf(w, `{"text":"%s says %s"}`, head.Filename, b)
	})
	recording := &message.File{MIME: "audio/mpeg", Data: []byte("hello")}
	f, err := d.read(t.Context(), "local", "", recording)
	if err != nil || f.MIME != "text/plain" || !strings.HasSuffix(string(f.Data), "recording.mp3 says hello") {
		t.Errorf("%v %+v", err, f)
	}
	if f, err := d.read(t.Context(), "local", "gemini/x", recording); err != nil || f != recording { // it hears itself
		t.Errorf("%v %+v", err, f)
	}
	d.allow = func(context.Context, string, *llm.Request) error { return llm.NotAllowed("box/whisper", "private") }
	if _, err := d.read(t.Context(), "local", "", recording); !fault.HasCode(err, "model_not_allowed") {
		t.Error(err)
	}
	d.set.Models = nil
	if _, err := d.read(t.Context(), "local", "", recording); !fault.HasCode(err, "audio_unsupported") || fault.Of(err).Remedy == "" {
		t.Error(err)
	}
}

func TestTranscriptionsThatFail(t *testing.T) {
	for _, answer := range []func(http.ResponseWriter){
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		func(w http.ResponseWriter) { io.WriteString(w, `{"text":`) },
		func(w http.ResponseWriter) { io.WriteString(w, `{}`) },
		func(w http.ResponseWriter) {
			io.WriteString(w, `{"text":"`+strings.Repeat("x", maxTranscript)+`"}`)
		},
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		d := hearing(t, func(w http.ResponseWriter, _ *http.Request) { answer(w) })
		if _, err := d.read(t.Context(), "local", "", &message.File{MIME: "audio/ogg; codecs=opus", Name: "memo.ogg", Data: []byte("x")}); !fault.HasCode(err, "transcription_failed") {
			t.Error(err)
		}
	}
}
