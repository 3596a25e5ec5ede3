package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/test/must"
)

// played is a server that the test controls.
type played struct {
	life context.Context
	end  context.CancelFunc
	well bool
}

func (p *played) Done() <-chan struct{} { return p.life.Done() }
func (p *played) Ended() (error, bool)  { return errors.New("it crashed"), p.well }
func (p *played) Stop()                 { p.end() }
func (p *played) running() bool         { return p.life.Err() == nil }

// playing returns a keeper of such servers.
func playing() *Keeper[*played] {
	return &Keeper[*played]{Idle: time.Minute, Pause: time.Second, Start: func(context.Context) (*played, error) {
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithCancel(context.Background())
		return &played{life: ctx, end: cancel}, nil
	}}
}

func take(t *testing.T, k *Keeper[*played]) *played {
	t.Helper()
	p, release, err := k.Acquire(t.Context())
	must.Do(t, err)
	release()
	return p
}

func TestKeeperKeepsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := playing()
		first, release, err := k.Acquire(t.Context())
		must.Do(t, err)
		time.Sleep(time.Hour)
		if take(t, k) != first {
			t.Error("another one although the first runs")
		}
		release()
		time.Sleep(59 * time.Second)
		if take(t, k) != first || !k.IsCurrent(first) {
			t.Error("it was stopped too early")
		}
		time.Sleep(61 * time.Second)
		if first.running() || k.IsCurrent(first) {
			t.Error("it runs although nobody uses it")
		}
		second := take(t, k)
		k.Drop(second)
		k.Drop(second)
		third := take(t, k)
		if second == first || third == second {
			t.Error("the same one again")
		}
		synctest.Wait()
		if second.running() {
			t.Error("what was dropped runs")
		}
		k.Close()
		if _, _, err := k.Acquire(t.Context()); !errors.Is(err, ErrClosed) || third.running() || k.IsCurrent(third) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A server that keeps ending is restarted after growing pauses.
func TestKeeperPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := playing()
		k.Spare = 1
		var pauses []time.Duration
		for range 9 {
			p := take(t, k)
			p.end()
			synctest.Wait()
			_, _, err := k.Acquire(t.Context())
			failed, ok := errors.AsType[*Failed](err)
			if !ok {
				pauses = append(pauses, 0)
				continue
			}
			if !failed.Ran || failed.Error() != "it crashed" {
				t.Errorf("%+v", failed)
			}
			pauses = append(pauses, failed.Wait)
			time.Sleep(failed.Wait)
		}
		// No pause follows the first failure, so the second Take of that round starts the server again.
		want := []time.Duration{0, 1, 2, 4, 8, 16, 32, 60, 60}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(pauses, want) {
			t.Errorf("%v", pauses)
		}
		p := take(t, k)
		p.well = true
		p.end()
		synctest.Wait()
		take(t, k)
		k.Close()
	})
}

func TestKeeperThatCannotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := playing()
		starts := 0
		k.Start = func(ctx context.Context) (*played, error) {
			if starts++; starts > 1 {
				<-ctx.Done()
			}
			return nil, io.ErrUnexpectedEOF
		}
		for _, wait := range []time.Duration{time.Second, time.Second / 2} {
			_, _, err := k.Acquire(t.Context())
			failed, ok := errors.AsType[*Failed](err)
			if !ok || failed.Ran || failed.Why != io.ErrUnexpectedEOF || failed.Wait != wait || starts != 1 {
				t.Errorf("%v, %d starts", err, starts)
			}
			time.Sleep(time.Second / 2)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := k.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits cannot give up: %v", err)
		}
		k.Close()
	})
}

// A program that does not read delays only the next Send, and not beyond its context.
func TestSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		s := NewSender(out)
		first := must.Get(s.Send(t.Context(), []byte("first ")))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Send(ctx, []byte("second ")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		var got bytes.Buffer
		read := make(chan error)
		go func() { _, err := io.Copy(&got, in); read <- err }()
		if err := <-first; err != nil {
			t.Error(err)
		}
		third, err := s.Send(t.Context(), []byte("third"))
		if err = errors.Join(err, <-third, s.Close()); err != nil {
			t.Error(err)
		}
		if err := <-read; err != nil || got.String() != "first third" {
			t.Errorf("%q, %v", got.String(), err)
		}
		if _, err := s.Send(t.Context(), nil); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
}

func TestExpander(t *testing.T) {
	x := Expander{Secret: func(name string) (string, bool) { return "s3cr3t", name == "KEY" }}
	if got := x.Expand("a${KEY} ${env:KEY} ${NONE:-b} ${C}${A} ${1}") + x.Named("KEY") + x.Named("A"); got != "as3cr3t s3cr3t b  ${1}s3cr3t" {
		t.Errorf("%q", got)
	}
	if x.Missing() != "A and C" || len(x.Values) != 3 || Mask("ab s3cr3t", append(x.Values, "ab")) != "ab •••" {
		t.Errorf("%q, %q", x.Missing(), x.Values)
	}
	p := &Process{stderr: func() string { return "one\n\x1b[2J two\r\nthe s3cr3t\n" }}
	if got := p.StderrSuffix(x.Values); got != "; it said: one |  [2J two | the •••" {
		t.Errorf("%q", got)
	}
	p.stderr = func() string { return strings.Repeat("é", 600) }
	if got := p.StderrSuffix(nil); len(got) > maxStderrSuffix+30 || !strings.HasPrefix(got, "; it said: … ") {
		t.Errorf("%d bytes", len(got))
	}
}
