package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/bench/process"

	"github.com/coder/websocket"
)

// newest returns the ids of the newest messages, newest first.
func (b *bench) newest() ([]string, error) { return b.page("&reverse=true") }

func (b *bench) page(how string) ([]string, error) {
	var list struct{ Messages []struct{ ID string } }
	err := b.get("/api/v1/conversations/"+b.conv+"/messages?limit=100"+how, &list)
	var out []string
	for _, m := range list.Messages {
		out = append(out, m.ID)
	}
	return out, err
}

func (b *bench) mark(msg, state string) error {
	return b.do("POST", "/messages/mark", map[string]any{"messages": []string{msg}, "state": state})
}

func (b *bench) main() error {
	return b.do("PATCH", "/branches/main", map[string]any{"preferred": true})
}

// do makes a request about the conversation.
func (b *bench) do(method, path string, in any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	return b.request(method, "/api/v1/conversations/"+b.conv+path, body, nil)
}

func (b *bench) absent(path string) error {
	if err := b.do("GET", path, nil); err == nil || !strings.Contains(err.Error(), "message_not_found") {
		return fmt.Errorf("%s: %v", path, err)
	}
	return nil
}

func (b *bench) get(path string, out any) error { return b.request("GET", path, nil, out) }

func (b *bench) request(method, path string, body []byte, out any) error {
	req, err := http.NewRequest(method, b.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+b.token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode >= 300:
		return fmt.Errorf("%s %s: %d %s", method, path, res.StatusCode, text)
	case out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}

func (b *bench) dial() error {
	u, err := url.Parse(b.url)
	if err != nil {
		return err
	}
	u.Scheme, u.Path = "ws", "/ws"
	b.ws, _, err = websocket.Dial(context.Background(), u.String(), &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + b.token}}})
	if err == nil {
		b.ws.SetReadLimit(64 << 20)
	}
	return err
}

// turn sends a message and waits until its turn ends.
func (b *bench) turn(frame map[string]any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	frame["type"], frame["conversation_id"] = "message", b.conv
	text, err := json.Marshal(frame)
	if err == nil {
		err = b.ws.Write(ctx, websocket.MessageText, text)
	}
	for err == nil {
		var f struct{ Type string }
		if _, text, err = b.ws.Read(ctx); err != nil {
			break
		}
		if err = json.Unmarshal(text, &f); err != nil {
			break
		}
		switch f.Type {
		case "complete":
			return nil
		case "error":
			return fmt.Errorf("%s", text)
		}
	}
	return err
}

// time measures an operation several times and reports the median.
func (b *bench) time(what string, times int, do func(round int) error) error {
	if err := b.settle(); err != nil {
		return err
	}
	var spent []time.Duration
	for i := range times {
		d, err := b.spend(func() error { return do(i) })
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		spent = append(spent, d)
	}
	slices.Sort(spent)
	b.tell(what, ms(spent[len(spent)/2]))
	return nil
}

// once measures an operation once, without waiting for the server to settle.
func (b *bench) once(what string, do func() error) error {
	d, err := b.spend(do)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	b.tell(what, ms(d))
	return nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1e6) }

func (b *bench) spend(do func() error) (time.Duration, error) {
	before, err := process.CPU(b.pid)
	if err == nil {
		err = do()
	}
	after, failed := process.CPU(b.pid)
	if err == nil {
		err = failed
	}
	return after - before, err
}

// settle waits until the server is idle.
func (b *bench) settle() error {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		d, err := b.spend(func() error { time.Sleep(200 * time.Millisecond); return nil })
		if err != nil {
			return err
		}
		if d < 3*time.Millisecond {
			return nil
		}
	}
	return fmt.Errorf("the server does not come to rest")
}
