package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// page is an open page: the connection of its event stream.
type page struct {
	conn   net.Conn
	closed chan struct{} // the reader has ended

	mu    sync.Mutex
	model *model
	last  int // the newest mark that has arrived
	done  chan struct{}
	times times
	sizes []int // of the events since begin
	err   error
}

var liveParams = regexp.MustCompile(`data-live="([^"]*)"`)

// open opens a screen several times.
func open(who *person, path string, times int) (list []*page, err error) {
	for range times {
		p, err := who.open(path)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

func closeAll(list []*page) {
	for _, p := range list {
		p.conn.Close()
		<-p.closed
	}
}

// open loads a screen and opens its event stream.
func (p *person) open(path string) (*page, error) {
	res, err := p.request(http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	params := ""
	if found := liveParams.FindSubmatch(text); found != nil {
		params = html.UnescapeString(string(found[1]))
	}
	return follow(p.steward.url, "/live?"+params, p.cookie)
}

// follow opens an event stream.
func follow(url, path, cookie string) (*page, error) {
	host := strings.TrimPrefix(url, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nAccept: text/event-stream\r\nSec-Fetch-Site: same-origin\r\n\r\n", path, host, cookie)
	in := bufio.NewReaderSize(conn, 4096)
	res, err := http.ReadResponse(in, nil)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	p := &page{conn: conn, closed: make(chan struct{})}
	go p.read(res.Body)
	return p, nil
}

// begin says that a model is about to answer.
func (p *page) begin(m *model) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.model, p.last, p.times, p.sizes, p.done = m, 0, times{}, nil, make(chan struct{})
}

func (p *page) read(body io.Reader) {
	defer close(p.closed)
	in := bufio.NewReaderSize(body, 4096)
	var event []byte
	for {
		line, err := in.ReadSlice('\n')
		event = append(event, line...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			p.end(err)
			return
		}
		if len(line) == 1 {
			p.take(event)
			event = event[:0]
		}
	}
}

func (p *page) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done != nil && p.last < p.model.marks() {
		p.err = fmt.Errorf("an event stream has ended: %w", err)
		close(p.done)
		p.done = nil
	}
}

// take notes which marks an event has brought.
func (p *page) take(event []byte) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil || p.last == p.model.marks() {
		return
	}
	p.sizes = append(p.sizes, len(event))
	n := newestMark(event)
	for ; p.last < n; p.last++ {
		p.times.note(now.Sub(p.model.sent(p.last)))
	}
	if p.last == p.model.marks() {
		close(p.done)
	}
}

// newestMark returns the number of the last mark of a text, or 0.
func newestMark(text []byte) int {
	at := bytes.LastIndex(text, []byte(mark))
	if at < 0 {
		return 0
	}
	text = text[at+len(mark):]
	end := 0
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(string(text[:end]))
	if err != nil {
		return 0
	}
	return n
}

// times are durations, counted in steps of 0.1 ms up to 10 s.
type times struct {
	counts []uint32
	n      int
}

const longest = 100_000

func (t *times) note(d time.Duration) {
	if t.counts == nil {
		t.counts = make([]uint32, longest+1)
	}
	t.counts[min(longest, max(0, int(d/(100*time.Microsecond))))]++
	t.n++
}

func (t *times) add(o *times) {
	if t.counts == nil {
		t.counts = make([]uint32, longest+1)
	}
	for i, n := range o.counts {
		t.counts[i] += n
	}
	t.n += o.n
}

// at returns a quantile in ms.
func (t *times) at(q float64) float64 {
	left := int(q * float64(t.n))
	for i, n := range t.counts {
		if left -= int(n); left < 0 {
			return float64(i) / 10
		}
	}
	return longest / 10
}
