package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// The environment in which the test binary plays another process.
const (
	childPart = "STEWARD_SQLITE_TEST_PART"
	childPath = "STEWARD_SQLITE_TEST_PATH"
)

// playChild opens the store and plays a part:
//
//	hold    commits once, says "open", and stays until its input ends
//	one     commits 20 batches, one after the other, and says "ack N" for each
//	many    commits batches from 8 goroutines without end, saying "ack W N"
func playChild(part, path string) int {
	s, err := Open(context.Background(), Options{Path: path})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch part {
	case "hold":
		err = childCommit(s, "hold", 0)
		fmt.Println("open")
		_, readErr := io.ReadAll(os.Stdin)
		err = errors.Join(err, readErr)
	case "one":
		for n := 0; n < 20 && err == nil; n++ {
			if err = childCommit(s, "one", n); err == nil {
				fmt.Println("ack", n)
			}
		}
	case "many":
		err = childMany(s)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childMany(s *Store) error {
	errs := make(chan error, 8)
	run := strconv.Itoa(os.Getpid())
	for w := range cap(errs) {
		name := fmt.Sprint(run, " ", w)
		go func() {
			for n := 0; ; n++ {
				if err := childCommit(s, name, n); err != nil {
					errs <- err
					return
				}
				fmt.Printf("ack %s %d\n", name, n)
			}
		}()
	}
	return <-errs
}

// childBatch is a batch of which a half can be told from the whole.
func childBatch(name string, n int) []store.Change {
	c := conv(name)
	m := c.Child("common.Message", strconv.Itoa(n))
	return []store.Change{
		{URI: m, If: store.If{Absent: true}, Body: []byte(m.String()), Place: &store.Place{List: c, Pos: int64(n)}},
		{URI: c, Body: []byte(strconv.Itoa(n)), Terms: []store.Term{{Name: "last", Value: strconv.Itoa(n)}}},
	}
}

func childCommit(s *Store, name string, n int) error {
	_, err := s.Commit(context.Background(), ada, store.Batch{Changes: childBatch(name, n)})
	return err
}

// child makes the command that plays a part; before is put before it.
func child(t *testing.T, part, path string, before ...string) *exec.Cmd {
	t.Helper()
	self := must(os.Executable())
	args := append(before, self)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childPart+"="+part, childPath+"="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestDataInUse(t *testing.T) {
	path := dbPath(t)
	cmd := child(t, "hold", path)
	in := must(cmd.StdinPipe())
	out := must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	_, err := Open(t.Context(), Options{Path: path})
	wantCode(t, err, "data_in_use")
	pid := strconv.Itoa(cmd.Process.Pid)
	if got := fault.Of(err).Details["pid"]; got != pid || !strings.Contains(err.Error(), pid) {
		t.Errorf("in use by %v, want %s: %v", got, pid, err)
	}
	look, err := Open(t.Context(), Options{Path: path, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := look.Get(t.Context(), ada, conv("hold")); err != nil || string(got.Body) != "0" {
		t.Errorf("beside the writer: %v, %v", got, err)
	}
	close1(t, look)
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	commit(t, open1(t, path), put(conv("c"), "")) // now it is free
}

// Each acknowledgement stands behind a sync of the write-ahead log that
// stands behind the writes to it.
func TestSyncBeforeAcknowledgement(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatalf("strace is missing (%v): run `make test`, which installs it, or `apt-get install strace`", err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := child(t, "one", dbPath(t), strace, "-f", "-y", "-qq", "-s", "40",
		"-e", "trace=fsync,fdatasync,pwrite64,write", "-e", "signal=none", "-o", trace)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v; %s", err, out)
	}
	if n := strings.Count(string(out), "ack "); n != 20 {
		t.Fatalf("%d acknowledgements:\n%s", n, out)
	}
	b := must(os.ReadFile(trace))
	acks, err := syncedAcks(string(b))
	if err != nil {
		t.Errorf("%v in\n%s", err, b)
	}
	if acks != 20 {
		t.Errorf("%d acknowledgements in the trace:\n%s", acks, b)
	}
}

var (
	traceWrite   = regexp.MustCompile(`^\d+ +pwrite64\(\d+<[^>]*-wal>`)
	traceSync    = regexp.MustCompile(`^(\d+) +f(?:data)?sync\(\d+<[^>]*-wal>(\) += 0| <unfinished)`)
	traceResumed = regexp.MustCompile(`^(\d+) +<\.\.\. f(?:data)?sync resumed>\) += 0`)
	traceAck     = regexp.MustCompile(`^\d+ +write\(1<[^>]*>, "ack `)
)

// syncedAcks goes through a trace and counts the acknowledgements; each must
// find the log written since the one before, and all of that synced.
func syncedAcks(trace string) (acks int, err error) {
	written, dirty := false, false
	syncing := make(map[string]bool)
	for line := range strings.Lines(trace) {
		switch {
		case traceWrite.MatchString(line):
			written, dirty = true, true
		case traceSync.MatchString(line):
			m := traceSync.FindStringSubmatch(line)
			if strings.HasPrefix(m[2], ")") {
				dirty = false
			} else {
				syncing[m[1]] = true
			}
		case traceResumed.MatchString(line):
			if pid := traceResumed.FindStringSubmatch(line)[1]; syncing[pid] {
				delete(syncing, pid)
				dirty = false
			}
		case traceAck.MatchString(line):
			if !written || dirty {
				return acks, fmt.Errorf("acknowledgement %d: written %v, unsynced %v", acks, written, dirty)
			}
			acks++
			written = false
		}
	}
	return acks, nil
}

// What a process acknowledged before it was killed is there, and nothing is
// there by half.
func TestKilled(t *testing.T) {
	t.Parallel()
	const rounds = 5
	random := rand.New(rand.NewPCG(1, 0))
	path := dbPath(t)
	acked := make(map[string]int) // by writer, the number of acknowledged batches
	for range rounds {
		cmd := child(t, "many", path)
		out := must(cmd.StdoutPipe())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		left := 1 + random.IntN(150)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if left--; left == 0 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			var pid, w, n int
			if _, err := fmt.Sscanf(lines.Text(), "ack %d %d %d", &pid, &w, &n); err == nil {
				acked[fmt.Sprint(pid, " ", w)] = n + 1
			} else if left > 0 {
				t.Fatalf("the child says %q", lines.Text())
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		checkKilled(t, path, acked)
	}
}

func checkKilled(t *testing.T, path string, acked map[string]int) {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer close1(t, s)
	if _, err := s.Seal(t.Context()); err != nil { // then the writer rests
		t.Fatal(err)
	}
	if v, err := s.Verify(t.Context()); err != nil || v.Flaw != nil || v.Open != 0 {
		t.Errorf("after a crash the log does not verify: %+v %+v, %v", v, v.Flaw, err)
	}
	if n, err := s.writer.c.number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); err != nil || n != 0 {
		t.Errorf("%d faults in the file, %v", n, err)
	}
	for name, n := range acked {
		last, err := s.Get(t.Context(), ada, conv(name))
		if err != nil {
			t.Fatalf("%d batches of %s were acknowledged: %v", n, name, err)
		}
		count, err := strconv.Atoi(string(last.Body))
		if err != nil || count+1 < n || last.Version != uint64(count+1) {
			t.Fatalf("%d batches of %s were acknowledged, there is %+v", n, name, last)
		}
		i := 0
		for it, err := range store.Items(t.Context(), s, ada, store.Query{List: conv(name)}) {
			if err != nil || it.Pos != int64(i) || string(it.Body) != it.URI.String() {
				t.Fatalf("member %d of %s: %+v, %v", i, name, it, err)
			}
			i++
		}
		if i != count+1 {
			t.Fatalf("%s has %d messages and counts %d", name, i, count+1)
		}
	}
	seq := uint64(0)
	for e, err := range store.Entries(t.Context(), s, ada, store.LogQuery{Limit: store.MaxLimit}) {
		if seq++; err != nil || e.Seq != seq || e.Op != resource.OpPut {
			t.Fatalf("entry %d: %+v, %v", seq, e, err)
		}
	}
}
