//go:build long

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	api "steward/client"
	"steward/internal/app"
	"steward/internal/channel/webhook"
	"steward/internal/server/auth"
	"steward/test/built"
)

const channelToken = "0123456789abcdef0123456789abcdef"

// door is a program at a webhook channel: it posts what people write until it is accepted, and shows what it
// is posted once for each key.
type door struct {
	*httptest.Server
	mu    sync.Mutex
	seen  map[string]bool // keys
	posts []webhook.Post
}

func newDoor() *door {
	d := &door{seen: map[string]bool{}}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p webhook.Post
		if json.NewDecoder(r.Body).Decode(&p) != nil || p.Key == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if !d.seen[p.Key] {
			d.seen[p.Key] = true
			d.posts = append(d.posts, p)
		}
		fmt.Fprintf(w, `{"message":%q}`, p.Key)
	}))
	return d
}

// texts counts what a chat shows.
func (d *door) texts(chat string) map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]int{}
	for _, p := range d.posts {
		if p.Chat == chat {
			out[p.Text]++
		}
	}
	return out
}

// served is the program, which is killed and started again.
type served struct {
	t    *testing.T
	env  []string
	data string
	cmd  *exec.Cmd
	said bytes.Buffer
}

func (s *served) start(binary string) {
	s.t.Helper()
	os.Remove(filepath.Join(s.data, "server.json")) //nolint:errcheck // of the last life
	s.cmd = exec.Command(binary, "serve", "--listen", "127.0.0.1:0", "--data", s.data)
	s.cmd.Env, s.cmd.Dir, s.cmd.Stderr = s.env, s.t.TempDir(), &s.said
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) kill() {
	s.cmd.Process.Kill() //nolint:errcheck // kill -9
	s.cmd.Wait()         //nolint:errcheck // it was killed
}

// post posts an event until it is accepted.
func (s *served) post(ctx context.Context, e webhook.Event) {
	body, err := json.Marshal(e)
	if err != nil {
		s.t.Fatal(err)
	}
	for n := 0; ctx.Err() == nil; n++ {
		if notice, err := app.ReadNotice(s.data); err == nil {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, notice.URL+"/channels/door", bytes.NewReader(body))
			if err != nil {
				s.t.Fatal(err)
			}
			r.Header.Set(webhook.SignatureHeader, webhook.Sign(channelToken, time.Now().Add(-time.Duration(n%200)*time.Second), body))
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close() //nolint:errcheck // there is none
				if resp.StatusCode == http.StatusNoContent {
					return
				}
			}
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// TestKillWithMessengers kills the program while people write to it at a messenger. Each message is answered
// once.
func TestKillWithMessengers(t *testing.T) {
	kills, messages := number(t, "CHAOS_KILLS", 10), 150
	binary, err := built.Program("steward/cmd/steward")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor()
	defer d.Close()
	home := t.TempDir()
	s := &served{t: t, data: filepath.Join(home, "data"), env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "STEWARD_LOG_LEVEL=error"}}
	config := filepath.Join(home, ".config", "steward", "steward.yaml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	settings := fmt.Sprintf("models:\n  default: offline/rules\nchannels:\n  door:\n    kind: webhook\n    token: %s\n    base_url: %s\n", channelToken, d.URL)
	if err := errors.Join(os.WriteFile(config, []byte(settings), 0o600), os.MkdirAll(s.data, 0o700)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), ending)
	defer cancel()
	s.start(binary)
	defer func() { s.kill() }()
	said := func(n int, person, text string) {
		s.post(ctx, webhook.Event{ID: fmt.Sprint("e", n), Chat: person, From: webhook.Person{ID: person}, Text: text})
	}
	people := []string{"ann", "bob", "eve"}
	for i, p := range people {
		said(-1-i, p, "hello")
		var code []string
		for code == nil && ctx.Err() == nil {
			pause(ctx, 50*time.Millisecond)
			for text := range d.texts(p) {
				code = regexp.MustCompile(`steward pair (\w+)`).FindStringSubmatch(text)
			}
		}
		notice, err := app.ReadNotice(s.data)
		if err != nil || code == nil {
			t.Fatalf("%s got no code: %v\n%s", p, err, s.said.String())
		}
		c := api.New(api.Options{URL: notice.URL, Token: func() (string, error) { return auth.ReadToken(s.data) }, HTTP: &http.Client{}, Fault: auth.FaultOf})
		if _, err := c.Pair(ctx, code[1], ""); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	var writing sync.WaitGroup
	r := rand.New(rand.NewPCG(uint64(number(t, "CHAOS_SEED", 1)), 3))
	writing.Go(func() {
		for i := range messages {
			said(i, people[i%len(people)], fmt.Sprintf("what is %d times 7?", i+2))
			pause(ctx, 30*time.Millisecond)
		}
	})
	for range kills {
		pause(ctx, time.Duration(200+r.IntN(1500))*time.Millisecond)
		s.kill()
		s.start(binary)
	}
	writing.Wait()
	answers := func() (n int, twice string) {
		for _, p := range people {
			for text, times := range d.texts(p) {
				if strings.Contains(text, "b 7): ") {
					n++
				}
				if times > 1 {
					twice += text + "\n"
				}
			}
		}
		return n, twice
	}
	for ctx.Err() == nil {
		if n, _ := answers(); n >= messages {
			break
		}
		pause(ctx, 100*time.Millisecond)
	}
	pause(ctx, time.Second)
	n, twice := answers()
	t.Logf("%d kills, %d messages, %d answers", kills, messages, n)
	if n != messages || twice != "" {
		t.Errorf("%d answers to %d messages; answered twice: %s\n%s", n, messages, twice, s.said.String())
	}
}
