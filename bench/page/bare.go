package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// fan is the bare loop: it hands what a model says to connections, without doing anything with it.
type fan struct {
	model string

	mu    sync.Mutex
	conns map[chan []byte]struct{}
}

// bare serves until its standard input ends.
func bare(model string) error {
	f := &fan{model: model, conns: map[chan []byte]struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", f.live)
	mux.HandleFunc("POST /begin", f.begin)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + ln.Addr().String())
	go http.Serve(ln, mux) //nolint:errcheck // it ends with the process
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func (f *fan) live(w http.ResponseWriter, r *http.Request) {
	events := make(chan []byte, 256)
	f.mu.Lock()
	f.conns[events] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.conns, events)
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	flush.Flush() //nolint:errcheck // the next write tells
	for {
		select {
		case b := <-events:
			if _, err := w.Write(b); err != nil || flush.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// begin asks the model. What has come is sent as often as the page does, in an event of the next size.
func (f *fan) begin(w http.ResponseWriter, r *http.Request) {
	var sizes []int
	if err := json.NewDecoder(r.Body).Decode(&sizes); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	req, err := http.NewRequest(http.MethodPost, f.model+"/v1/chat/completions", strings.NewReader(`{"messages":[{"content":"stream"}]}`))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req.Header.Set("X-Bare", "yes")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	lines := make(chan []byte, 16)
	go func() {
		defer close(lines)
		defer res.Body.Close()
		for in := bufio.NewScanner(res.Body); in.Scan(); {
			if len(in.Bytes()) > 0 {
				lines <- bytes.Clone(in.Bytes())
			}
		}
	}()
	go func() {
		const every = 70 * time.Millisecond
		tick := time.NewTimer(time.Hour)
		due, newest, last := false, 0, time.Time{}
		for i := 0; ; {
			select {
			case line, ok := <-lines:
				if !ok {
					f.send(newest, 200)
					return
				}
				if n := newestMark(line); n > 0 {
					newest = n
				}
				if !due {
					due = true
					tick.Reset(every - min(every, time.Since(last)))
				}
			case <-tick.C:
				due, last = false, time.Now()
				size := 200
				if len(sizes) > 0 {
					size = sizes[i%len(sizes)]
				}
				i++
				f.send(newest, size)
			}
		}
	}()
}

func (f *fan) send(newest, size int) {
	text := fmt.Sprintf("%s%d\n\n", mark, newest)
	b := append([]byte("data: "), bytes.Repeat([]byte("."), max(0, size-len(text)-6))...)
	b = append(b, text...)
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c <- b
	}
}
