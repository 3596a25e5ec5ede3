package auth_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"steward/internal/server/auth"
)

// impatient runs a server with short limits, also over HTTP/2.
func impatient(t *testing.T, p auth.Timeouts, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(nil)
	s.Config = p.Server(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// peer is the other end of a connection.
type peer struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func dial(t *testing.T, s *httptest.Server) *peer {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &peer{c, t, bufio.NewReader(c)}
}

func (p *peer) send(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		p.t.Fatal(err)
	}
}

// answer reads a complete answer.
func (p *peer) answer() (*http.Response, string) {
	p.t.Helper()
	res, err := http.ReadResponse(p.in, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		p.t.Fatal(err)
	}
	return res, string(b)
}

// ended waits until the server closes the connection.
func (p *peer) ended() {
	p.t.Helper()
	if b, err := p.in.ReadByte(); err == nil || os.IsTimeout(err) {
		p.t.Errorf("the connection goes on: %q %v", b, err)
	}
}

const (
	announced = "POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
	whole     = "POST /%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\nabcd"
	bare      = "GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"
)

// TestABodyThatDoesNotCome: the answer does not wait for the body, and the
// connection is closed.
func TestABodyThatDoesNotCome(t *testing.T) {
	s := impatient(t, auth.Timeouts{Read: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refused":
			auth.WriteError(w, r, nil, errors.New("no"))
		case "/read":
			if _, err := auth.ReadBody(w, r, 0); err != nil {
				auth.WriteError(w, r, nil, err)
			}
		case "/unread":
			fmt.Fprint(w, strings.Repeat("x", 10_000)) // more than the server buffers
		case "/flushed":
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		case "/closed":
			r.Body.Close()
		case "/panics":
			panic(http.ErrAbortHandler)
		}
	})
	for path, status := range map[string]int{"refused": 500, "read": 400, "unread": 200, "flushed": 200, "closed": 200, "silent": 200, "panics": 0} {
		t.Run(path, func(t *testing.T) {
			p := dial(t, s)
			p.send(fmt.Sprintf(announced, path))
			if status != 0 {
				res, body := p.answer()
				if res.StatusCode != status || path == "read" && !strings.Contains(body, "body_broken") {
					t.Errorf("%d %s", res.StatusCode, body)
				}
				if !res.Close && path != "closed" { // after Body.Close, the header does not announce the end
					t.Error("the connection is said to go on")
				}
			}
			p.ended()
		})
	}
}

// TestARefusalIsToldAtOnce: a refusal does not wait for the body.
func TestARefusalIsToldAtOnce(t *testing.T) {
	s := impatient(t, auth.Timeouts{Read: time.Hour}, func(w http.ResponseWriter, r *http.Request) {
		auth.New(auth.Options{AnyHost: true}).Wrap(nil, nil).ServeHTTP(w, r)
	})
	p := dial(t, s)
	p.send(fmt.Sprintf(announced, ""))
	if res, body := p.answer(); res.StatusCode != 401 || !res.Close {
		t.Errorf("%d %v %s", res.StatusCode, res.Close, body)
	}
}

// TestPatienceIsForPeersAlone: a handler may take its time, whether it has read the
// body, has left it, or there is none. The connection stays open.
func TestPatienceIsForPeersAlone(t *testing.T) {
	const patience = 500 * time.Millisecond
	begun, goOn := make(chan struct{}, 8), make(chan struct{})
	s := impatient(t, auth.Timeouts{Read: patience, Write: patience}, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		switch r.URL.Path {
		case "/stalls":
			_, err := io.ReadAll(r.Body)
			if !os.IsTimeout(err) {
				t.Errorf("%v", err)
			}
			return
		case "/read":
			if b, err := io.ReadAll(r.Body); err != nil || string(b) != "abcd" {
				t.Errorf("%q %v", b, err)
			}
			r.Body.Close()
		case "/late":
			if err := rc.Flush(); err != nil {
				t.Error(err)
			}
			if n, err := r.Body.Read(make([]byte, 1)); err == nil {
				t.Errorf("%d bytes were read that had been thrown away", n)
			}
			r.Body.Read(nil)
		}
		begun <- struct{}{}
		select {
		case <-r.Context().Done():
			t.Errorf("%s: the client is said to have left", r.URL.Path)
		case <-goOn:
		}
		fmt.Fprint(w, "done")
		if err := rc.Flush(); err != nil {
			t.Error(err)
		}
	})
	var peers []*peer
	for _, text := range []string{fmt.Sprintf(whole, "read"), fmt.Sprintf(whole, "late"), fmt.Sprintf(whole, "unread"), fmt.Sprintf(bare, "")} {
		p := dial(t, s)
		p.send(text)
		<-begun
		peers = append(peers, p)
	}
	for range 2 { // the server gives up on these, which began later
		p := dial(t, s)
		p.send(fmt.Sprintf(announced, "stalls"))
		p.dropped()
	}
	close(goOn)
	for range 2 {
		for _, p := range peers {
			if res, body := p.answer(); res.StatusCode != 200 || res.Close || body != "done" {
				t.Errorf("%d %v %s", res.StatusCode, res.Close, body)
			}
			p.send(fmt.Sprintf(bare, ""))
		}
	}
	for _, p := range peers {
		p.answer()
	}
}

// dropped waits until the server closes the connection, whatever it answers.
func (p *peer) dropped() {
	p.t.Helper()
	if _, err := io.Copy(io.Discard, p.in); os.IsTimeout(err) {
		p.t.Error("the connection goes on")
	}
}

// TestAnAnswerThatIsNotTaken: a peer that does not read its answer is disconnected,
// for a long answer and for many short ones.
func TestAnAnswerThatIsNotTaken(t *testing.T) {
	ended := make(chan error, 1)
	s := impatient(t, auth.Timeouts{Write: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			fmt.Fprint(w, strings.Repeat("x", 1000))
			return
		}
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- err
				return
			}
		}
	})
	p := dial(t, s)
	p.send(fmt.Sprintf(bare, "long"))
	err := <-ended
	if !os.IsTimeout(err) {
		t.Error(err)
	}
	p = dial(t, s)
	for {
		if _, err := io.WriteString(p, strings.Repeat(fmt.Sprintf(bare, "short"), 1000)); err != nil {
			if os.IsTimeout(err) {
				t.Error("nobody takes what is sent, and nobody says so")
			}
			return
		}
	}
}

// TestPatienceOverHTTP2: a stalled stream ends without the others, and requests that
// Talks names may be silent.
func TestPatienceOverHTTP2(t *testing.T) {
	const patience = 500 * time.Millisecond
	talks := func(r *http.Request) bool { return r.URL.Path == "/talk" }
	ended := make(chan error, 1)
	s := impatient(t, auth.Timeouts{Read: patience, Write: patience, MayPause: talks}, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		switch r.URL.Path {
		case "/talk":
			if err := rc.Flush(); err != nil {
				t.Error(err)
			}
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			w.Write(b)
		case "/stalls":
			_, err := io.ReadAll(r.Body)
			ended <- err
		case "/long":
			var err error
			for err == nil {
				_, err = w.Write(make([]byte, 1<<20))
			}
			ended <- err
		case "/kept":
			fmt.Fprint(w, "x")
		}
	})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	post := func(path string, body io.Reader) *http.Response {
		t.Helper()
		res, err := client.Post(s.URL+path, "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	words, says := io.Pipe()
	talk := post("/talk", words) // the client then stays silent
	defer talk.Body.Close()
	for range 2 {
		nothing, never := io.Pipe()
		res := post("/stalls", nothing)
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		if err := errors.Join(res.Body.Close(), never.Close()); err != nil {
			t.Error(err)
		}
		res = post("/long", nil)
		err := <-ended
		if err == nil {
			t.Error("nobody read that")
		}
		res.Body.Close()
	}
	if _, err := io.WriteString(says, "hello"); err != nil {
		t.Error(err)
	}
	if err := says.Close(); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(talk.Body); err != nil || string(b) != "hello" {
		t.Errorf("%q %v", b, err)
	}
	res := post("/kept", strings.NewReader("not read"))
	if b, err := io.ReadAll(res.Body); err != nil || string(b) != "x" || res.ProtoMajor != 2 {
		t.Errorf("%q %v %s", b, err, res.Proto)
	}
	res.Body.Close()
}

// TestPatienceWithWhatIsTakenOver: a hijacked connection has no limits any more.
func TestPatienceWithWhatIsTakenOver(t *testing.T) {
	s := impatient(t, auth.Timeouts{Read: time.Nanosecond, Write: time.Nanosecond}, func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			defer c.Close()
			if b, err := rw.ReadByte(); err != nil || b != '?' {
				t.Errorf("%q %v", b, err)
			}
			if _, err := c.Write([]byte("!")); err != nil {
				t.Error(err)
			}
		}()
	})
	p := dial(t, s)
	p.send(fmt.Sprintf(bare, ""))
	p.send("?")
	if b, err := p.in.ReadByte(); err != nil || b != '!' {
		t.Errorf("%q %v", b, err)
	}
}
