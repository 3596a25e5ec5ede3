package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// contender is a chat server under measurement.
type contender interface {
	// chat begins conversation i; the function runs one turn of it and
	// returns the answer.
	chat(i int) (turn func(text string) (string, error), err error)
	// checkpoint moves the WAL into the database.
	checkpoint() error
	dir() string // where its database is
	pid() int    // of the process that serves
}

// order is what the parent asks a contender for.
type order struct {
	Conversations, Turns int
	Disk                 bool
}

// report is its answer. Times are milliseconds, sizes bytes but for RSS and
// Heap, which are megabytes.
type report struct {
	CPU, P50, P99, Rate float64
	RSS, Heap           float64
	DiskBytes, Content  int64
	Turns               int
}

func serve(c contender) error {
	if name := os.Getenv("BENCH_PROFILE"); name != "" { // profiles of each contender
		name += "." + filepath.Base(c.dir())
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer func() {
			pprof.StopCPUProfile()
			if f, err := os.Create(name + ".allocs"); err == nil {
				pprof.Lookup("allocs").WriteTo(f, 0)
			}
		}()
	}
	in := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	s := &session{c: c}
	for in.Scan() {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		r, err := s.obey(o)
		if err != nil {
			return err
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return in.Err()
}

type session struct {
	c       contender
	chats   []func(string) (string, error)
	mu      sync.Mutex
	content int64
}

func (s *session) obey(o order) (report, error) {
	if o.Disk {
		return s.disk()
	}
	for len(s.chats) < o.Conversations {
		turn, err := s.c.chat(len(s.chats))
		if err != nil {
			return report{}, err
		}
		s.chats = append(s.chats, turn)
	}
	before, err := cpuOf(s.c.pid())
	if err != nil {
		return report{}, err
	}
	began := time.Now()
	times := make([][]time.Duration, o.Conversations)
	errs := make(chan error, o.Conversations)
	for i := range o.Conversations {
		go func() { errs <- s.turns(i, o.Turns, &times[i]) }()
	}
	var first error
	for range o.Conversations {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	wall := time.Since(began)
	after, err := cpuOf(s.c.pid())
	if err != nil {
		return report{}, err
	}
	cpu := after - before
	all := slices.Concat(times...)
	slices.Sort(all)
	n := float64(len(all))
	if n == 0 {
		return report{}, first
	}
	return report{
		CPU: ms(cpu) / n, Rate: n / wall.Seconds(),
		P50: ms(all[len(all)/2]), P99: ms(all[len(all)*99/100]),
	}, first
}

func (s *session) turns(i, n int, times *[]time.Duration) error {
	for k := range n {
		text := "What is 12 times 7? This is question " + strconv.Itoa(k) + " of the conversation, and it has about as many words as such a question tends to have."
		began := time.Now()
		answer, err := s.chats[i](text)
		if err != nil {
			return err
		}
		*times = append(*times, time.Since(began))
		if len(answer) < 10 {
			return fmt.Errorf("the answer is %q", answer)
		}
		s.mu.Lock()
		s.content += int64(len(text) + len(`{"a": 12, "b": 7}`) + len("84") + len(answer))
		s.mu.Unlock()
	}
	return nil
}

func (s *session) disk() (report, error) {
	runtime.GC()
	debug.FreeOSMemory()
	if err := s.c.checkpoint(); err != nil {
		return report{}, err
	}
	var r report
	r.Content = s.content
	entries, err := os.ReadDir(s.c.dir())
	if err != nil {
		return r, err
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(s.c.dir(), e.Name()))
		if err != nil {
			return r, err
		}
		r.DiskBytes += info.Size()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	r.Heap = float64(m.HeapAlloc) / (1 << 20)
	r.RSS = rss(s.c.pid())
	return r, nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// cpuTime is what this process has used so far, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rss is a process's resident set in megabytes.
func rss(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(b, []byte("VmRSS:"))
	if !ok {
		return 0
	}
	f := bytes.Fields(rest)
	kb, _ := strconv.ParseFloat(string(f[0]), 64)
	return kb / 1024
}
