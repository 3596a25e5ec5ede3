package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/channel"
)

func TestSignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token = "0123456789abcdef0123456789abcdef"
		c, err := New(channel.Options{Token: token, BaseURL: "https://door.example/x", Log: slog.New(slog.DiscardHandler),
			Client: &http.Client{Transport: there{}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		received := 0
		done := make(chan error)
		go func() {
			done <- c.Run(ctx, func() {}, func(context.Context, []channel.Update) error { received++; return nil })
		}()
		synctest.Wait()
		body := `{"id":"1","chat":"c","from":{"id":"p"},"text":"hello"}`
		post := func(signature, body string) int {
			r := httptest.NewRequest(http.MethodPost, "/channels/door", strings.NewReader(body))
			r.Header.Set(SignatureHeader, signature)
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			return w.Code
		}
		good := Sign(token, time.Now(), []byte(body))
		for _, x := range []struct {
			signature, body string
			want            int
		}{
			{"", body, 401}, {"t=x,v1=y", body, 401}, {Sign("another token, also long", time.Now(), []byte(body)), body, 401},
			{good, body + " ", 401}, {Sign(token, time.Now().Add(-6*time.Minute), []byte(body)), body, 401},
			{Sign(token, time.Now().Add(6*time.Minute), []byte(body)), body, 401},
			{good, body, 204}, {good, body, 409}, {strings.Replace(good, "v1", "v1", 1), body, 409},
		} {
			if got := post(x.signature, x.body); got != x.want {
				t.Errorf("%s: %d, want %d", x.signature, got, x.want)
			}
		}
		time.Sleep(time.Second)
		if got := post(Sign(token, time.Now(), []byte(body)), body); got != 204 {
			t.Errorf("signed again: %d", got)
		}
		if got := post(good, body); got != 409 {
			t.Errorf("replayed: %d", got)
		}
		time.Sleep(time.Hour)
		if got := post(good, body); got != 401 {
			t.Errorf("replayed after an hour: %d", got)
		}
		if received != 2 {
			t.Errorf("%d events were received", received)
		}
		cancel()
		<-done
		if got := post(Sign(token, time.Now(), []byte(body)), body); got != 503 {
			t.Errorf("not running: %d", got)
		}
	})
}

// there is a program that is there.
type there struct{}

func (there) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Header: http.Header{}}, nil
}
