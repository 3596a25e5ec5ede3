//go:build long

package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// quick calls one of Steward's own tools from outside and returns how long that
// took.
func (s *steward) quick(client *http.Client) (time.Duration, error) {
	began := time.Now()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+"/tool.Tool/ExecuteTool",
		strings.NewReader(`{"function":{"name":"math.multiply","arguments":"{\"a\":6,\"b\":7}"}}`))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Token())
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	b, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil && !bytes.Contains(b, []byte(`"42"`)) {
		err = fmt.Errorf("%s", b)
	}
	return time.Since(began), err
}

// resident returns Steward's resident memory in bytes.
func (s *steward) resident() int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		s.t.Error(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				s.t.Error(err)
			}
			return kib << 10
		}
	}
	return 0
}

// watched holds measurements of a Steward over a period.
type watched struct {
	rise  int64           // the most that its memory rose, in bytes
	times []time.Duration // durations of calls of an ordinary tool
}

// latency returns the median and the longest of the times.
func (w *watched) latency() (median, longest time.Duration) {
	slices.Sort(w.times)
	return w.times[len(w.times)/2], w.times[len(w.times)-1]
}

// watch measures Steward's memory and calls an ordinary tool repeatedly until
// stop is called.
func (s *steward) watch() (stop func() *watched) {
	s.t.Helper()
	w := &watched{}
	client := &http.Client{Transport: &http.Transport{}}
	for range 5 { // warm up the connection
		if _, err := s.quick(client); err != nil {
			s.t.Fatal(err)
		}
	}
	before := s.resident()
	end := make(chan struct{})
	var all sync.WaitGroup
	every := func(pause time.Duration, look func()) {
		all.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for {
				look()
				select {
				case <-tick.C:
				case <-end:
					return
				}
			}
		})
	}
	every(3*time.Millisecond, func() { w.rise = max(w.rise, s.resident()-before) })
	every(20*time.Millisecond, func() {
		took, err := s.quick(client)
		if err != nil {
			s.t.Errorf("an ordinary tool: %v", err)
		}
		w.times = append(w.times, took)
	})
	return func() *watched {
		close(end)
		all.Wait()
		client.CloseIdleConnections()
		return w
	}
}

// alive returns the running rogues with their command lines, by process id. An
// empty name stands for all.
func (s *steward) alive(name string) map[int]string {
	s.t.Helper()
	found := map[int]string{}
	list, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		s.t.Error(err)
	}
	for _, exe := range list {
		file, err := os.Readlink(exe) // a copy of the program, or the program itself
		if err != nil || filepath.Base(strings.TrimSuffix(file, " (deleted)")) != filepath.Base(s.rogue) {
			continue // it has ended or is another program
		}
		dir := filepath.Dir(exe)
		b, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		pid, bad := strconv.Atoi(filepath.Base(dir))
		if line := strings.Fields(strings.ReplaceAll(string(b), "\x00", " ")); err == nil && bad == nil && len(line) > 2 && (name == "" || line[2] == name) {
			found[pid] = strings.Join(line[1:], " ")
		}
	}
	return found
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, within time.Duration, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(within); !is(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("within %v it is not so that %s", within, what)
		}
	}
}

// inCall returns the ids of a rogue's processes that report to be in the middle
// of a call.
func (s *steward) inCall(name string) []int {
	s.t.Helper()
	var out []int
	for pid := range s.alive(name) {
		names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
		if err != nil {
			s.t.Error(err)
		}
		for _, n := range names {
			if b, err := os.ReadFile(n); err == nil && string(b) == "in a call\n" {
				out = append(out, pid)
				break
			}
		}
	}
	return out
}
