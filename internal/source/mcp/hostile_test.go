package mcp

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/must"
)

func TestAnswerTooLarge(t *testing.T) {
	w := start(t, "big_answer")
	work := w.tool(t, "srv.work")
	_, err := call(t.Context(), work, `{"big":true}`)
	wantCode(t, err, fault.Unavailable, "mcp_server_floods")
	if tool.CertainlyNotDone(err) {
		t.Error("it has been done all the same")
	}
	wantText(t, work, `{}`, "worked") // by the restarted server
}

// Servers that do not start, or do not finish listing their tools, are unavailable. No caller waits
// longer for them than its timeout.
func TestHostileStarts(t *testing.T) {
	for mode, code := range map[string]string{
		"hang_all": "mcp_timeout", "hang_init": "mcp_timeout", "hang_list": "mcp_timeout",
		"cursor_loop": "mcp_list_endless", "cursor_endless": "mcp_timeout", "too_many": "mcp_list_endless", "wide": "mcp_list_endless",
		"die_start": "mcp_start_failed",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := start(t, mode)
			patience := ample
			if code == "mcp_timeout" {
				patience = 300 * time.Millisecond
			}
			_, err := w.Announce(within(t, patience))
			if !fault.HasCode(err, code) || !tool.CertainlyNotDone(err) {
				t.Errorf("announcing: %v; want %s", err, code)
			}
			_, err = call(within(t, patience), w.Tool(tool.Spec{Name: "srv.work"}), `{}`)
			if err == nil || !tool.CertainlyNotDone(err) {
				t.Errorf("calling: %v", err)
			}
		})
	}
}

// An endless list is cut at a limit.
func TestWordyLists(t *testing.T) {
	w := start(t, "wordy")
	for _, name := range []string{"srv.list_resources", "srv.list_prompts"} {
		r, err := call(t.Context(), w.tool(t, name), `{}`)
		if err != nil || !strings.HasSuffix(text(r), `"more":true}`) || len(text(r)) > 3*maxListedBytes {
			t.Errorf("%s: %d bytes, %v", name, len(text(r)), err)
		}
	}
}

// A server that hangs in one call only keeps running.
func TestLazyServerStays(t *testing.T) {
	w := start(t, "lazy_call")
	work := w.tool(t, "srv.work")
	before := w.running(t)
	if _, err := call(within(t, 2*time.Second), work, `{"lazy":1}`); !fault.HasCode(err, "mcp_timeout") {
		t.Fatal(err)
	}
	for range 20 {
		wantText(t, work, `{}`, "worked")
	}
	if after := w.running(t); len(after) != 1 || after[0] != before[0] {
		t.Errorf("%v, %v", before, after)
	}
}

func TestNames(t *testing.T) {
	w := start(t, "names")
	a := must.Get(w.Announce(t.Context()))
	var names []string
	for _, s := range a.Specs {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "srv.a_b srv.a_name_that_is_much_longer_than_any_provider_wou_565cd1cc37 srv.files_write srv.http_get2_go srv.undescribed" {
		t.Errorf("%s", got)
	}
	var refused []string
	for _, err := range a.Refused {
		refused = append(refused, fault.Of(err).Code+": "+err.Error())
	}
	all := strings.Join(refused, "\n")
	for _, want := range []string{
		`mcp_tool_conflict: srv.read_file would be the name of 3 tools: "readFile", "read_file", "READ-FILE"`,
		`tool_name_invalid: "reаd"`, `tool_name_invalid: "wri\u200bte"`, `tool_name_invalid: ""`, `tool_name_invalid: "..."`,
		"tool_schema_invalid: the tool srv.shapeless",
		"tool_schema_invalid: the tool srv.elsewhere", `mcp_tool_too_large: the tool "wordy"`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s\nis not in\n%s", want, all)
		}
	}
	if len(refused) != 8 {
		t.Errorf("%d are refused", len(refused))
	}
}

// A description that changes after the approval is noticed before anything is sent: the second call never
// reaches the server.
func TestRugPull(t *testing.T) {
	w := start(t, "rug")
	work := w.tool(t, "srv.work")
	wantText(t, work, `{"n":1}`, "worked")
	eventually(t, "the change is told", func() bool { return w.changed.Load() > 0 })
	_, err := call(t.Context(), work, `{"n":2}`)
	wantCode(t, err, fault.Denied, "tool_changed")
	if !tool.CertainlyNotDone(err) {
		t.Error(err)
	}
	x, release, err := w.connected(t.Context())
	must.Do(t, err)
	release()
	said := x.prog.Stderr
	eventually(t, "the first call is told", func() bool { return strings.Contains(said(), `"n":1`) })
	if strings.Contains(said(), `"n":2`) {
		t.Errorf("what was sent: %s", said())
	}
	// The same holds for a source without an earlier announcement, as after a restart.
	again := start(t, "rug", func(_ *tool.Env, d *Decl) { d.Timeout = time.Minute })
	spec := work.Spec()
	spec.Description = "It worked otherwise once."
	_, err = call(t.Context(), again.Tool(spec), `{}`)
	wantCode(t, err, fault.Denied, "tool_changed")
	if again.changed.Load() == 0 {
		t.Error("the change is not told")
	}
	spec.Name = "srv.gone"
	_, err = call(t.Context(), again.Tool(spec), `{}`)
	wantCode(t, err, fault.Unavailable, "tool_unavailable")
}

func TestStorm(t *testing.T) {
	w := start(t, "storm")
	work := w.tool(t, "srv.work")
	for range 3 {
		r, err := call(t.Context(), work, `{}`)
		lists, _ := strconv.Atoi(strings.TrimPrefix(text(r), "lists: "))
		if err != nil || lists < 1 || lists > 20 {
			t.Errorf("%q, %v", text(r), err)
		}
	}
	if w.changed.Load() != 0 {
		t.Error("nothing has changed")
	}
}

func TestListThatIsGone(t *testing.T) {
	w := start(t, "gone_list")
	work := w.tool(t, "srv.work")
	wantText(t, work, `{}`, "worked")
	eventually(t, "its change is heard", func() bool {
		x, release, err := w.connected(t.Context())
		if err != nil {
			return true
		}
		release()
		return x.changes.Load() > 0
	})
	_, err := call(within(t, 300*time.Millisecond), work, `{}`)
	if err == nil || !tool.CertainlyNotDone(err) {
		t.Errorf("%v", err)
	}
}

func memory(t *testing.T) func() int64 {
	debug.FreeOSMemory() // releases the memory of earlier tests, so that it does not count
	before := resident(t)
	var most atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			most.Store(max(most.Load(), resident(t)-before))
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-done
		return most.Load()
	}
}

func resident(t testing.TB) int64 {
	b := must.Get(os.ReadFile("/proc/self/statm"))
	n := must.Get(strconv.ParseInt(strings.Fields(string(b))[1], 10, 64))
	return n * int64(os.Getpagesize())
}
