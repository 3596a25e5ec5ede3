//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5"

	"steward/bench/process"
	api "steward/client"
	"steward/test/cluster"
)

// keys makes users and returns a key of each.
func (w *world) keys(ctx context.Context, users int) ([]string, error) {
	n := w.Nodes[0]
	admin := api.New(api.Options{URL: n.URL(), Token: func() (string, error) { return n.Token(), nil }, HTTP: &http.Client{}})
	defer admin.Close()
	out := make([]string, users)
	for i := range out {
		key, err := admin.CreateKey(ctx, fmt.Sprint("u", i), "bench", time.Time{})
		if err != nil {
			return nil, err
		}
		out[i] = key.Secret
	}
	return out, nil
}

// talk is a connection of a user to a node.
type talk struct {
	ws *websocket.Conn
	id string // of its conversation
	n  int
}

func dial(ctx context.Context, n *cluster.Node, key string) (*talk, error) {
	ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(n.URL(), "http")+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + key}}})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(1 << 20)
	return &talk{ws: ws}, nil
}

func (t *talk) close() { t.ws.CloseNow() } //nolint:errcheck // nothing is expected of it

func (t *talk) write(ctx context.Context, frame map[string]any) error {
	b, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	return t.ws.Write(ctx, websocket.MessageText, b)
}

// turn sends a message and reads frames until the turn is complete.
func (t *talk) turn(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	message := map[string]any{"type": "message", "content": "What is 12 times 7? This is question " + strconv.Itoa(t.n) + " of the conversation."}
	t.n++
	if t.id != "" {
		message["conversation_id"] = t.id
	}
	err := t.write(ctx, message)
	for err == nil {
		var b []byte
		if _, b, err = t.ws.Read(ctx); err != nil {
			break
		}
		switch {
		case bytes.HasPrefix(b, []byte(`{"type":"error"`)):
			return 0, fmt.Errorf("the server says %s", b)
		case bytes.HasPrefix(b, []byte(`{"type":"complete"`)):
			took := time.Since(began)
			var f struct {
				ID string `json:"conversation_id"`
			}
			err := json.Unmarshal(b, &f)
			t.id = f.ID
			return took, err
		}
	}
	return 0, err
}

// together runs several turns of each of the talks at once, and returns how long they took.
func together(ctx context.Context, talks []*talk, turns int) ([]time.Duration, error) {
	var mu sync.Mutex
	var times []time.Duration
	errs := make(chan error, len(talks))
	for _, t := range talks {
		go func() {
			for range turns {
				took, err := t.turn(ctx)
				if err != nil {
					errs <- err
					return
				}
				mu.Lock()
				times = append(times, took)
				mu.Unlock()
			}
			errs <- nil
		}()
	}
	var err error
	for range talks {
		err = errors.Join(err, <-errs)
	}
	slices.Sort(times)
	return times, err
}

// at returns a percentile in milliseconds.
func at(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(p*float64(len(sorted)-1))]) / float64(time.Millisecond)
}

// use is the CPU time that parts of the world have used, in seconds, and what PostgreSQL has committed.
type use struct {
	nodes, postgres, nats, driver, idle float64
	commits                             int64
}

func (a use) minus(b use) use {
	return use{a.nodes - b.nodes, a.postgres - b.postgres, a.nats - b.nats, a.driver - b.driver, a.idle - b.idle, a.commits - b.commits}
}

// used returns what was used so far.
func (w *world) used(ctx context.Context) (u use, err error) {
	for _, n := range w.Nodes {
		u.nodes += cpu(n.PID())
	}
	u.driver = cpu(os.Getpid())
	if w.nats != nil {
		u.nats = cpu(w.nats.Process.Pid)
	}
	if u.idle, err = idle(); err != nil || w.Postgres == nil {
		return u, err
	}
	spent, err := w.Postgres.CPU()
	if err != nil {
		return u, err
	}
	u.postgres = spent.Seconds()
	conn, err := pgx.Connect(ctx, w.Postgres.Super("postgres"))
	if err != nil {
		return u, err
	}
	defer conn.Close(ctx)
	return u, conn.QueryRow(ctx, "SELECT xact_commit FROM pg_stat_database WHERE datname = 'steward'").Scan(&u.commits)
}

const tick = 0.01 // seconds of the kernel's clock, in which /proc counts

// cpu returns the CPU time of a process in seconds; 0 if it has ended.
func cpu(pid int) float64 {
	d, err := process.CPU(pid)
	if err != nil {
		return 0
	}
	return d.Seconds()
}

// idle returns the time in which processors had nothing to do, in seconds of one.
func idle() (float64, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	rest, err := strconv.Atoi(fields[4])
	if err != nil {
		return 0, err
	}
	waits, err := strconv.Atoi(fields[5])
	return float64(rest+waits) * tick, err
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return 0
	}
	return v[len(v)/2]
}
