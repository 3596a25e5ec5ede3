package edge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"steward/test/edge"
)

// A file size limit stands in for a full disk: writes fail in the same place,
// and the limit can be lifted while Steward runs.
func TestAFullDiskIsReportedByReadyz(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply { return edge.Reply{Text: "noted"} }), SQLite: true})
	n.ServeUnder([]string{"prlimit", "--fsize=3000000:unlimited"})
	if status, b := n.HTTP(http.MethodGet, "/readyz", nil); status != http.StatusOK {
		t.Fatalf("%d %s", status, b)
	}
	text := strings.Repeat("a message that takes some room ", 3000)
	code := ""
	for range 200 {
		if code = n.Ask(text, nil).Code; code != "" {
			break
		}
	}
	if code != "disk_full" {
		t.Fatalf("a turn that finds no room ends with %q", code)
	}
	post := func() (int, []byte) {
		return n.HTTP(http.MethodPost, "/api/v1/keys", map[string]string{"user": "ada", "name": strings.Repeat("k", 60)})
	}
	status, b := post()
	for range 200 { // small changes may still fit
		if status/100 != 2 {
			break
		}
		status, b = post()
	}
	if status != http.StatusInsufficientStorage || !strings.Contains(string(b), "disk_full") {
		t.Errorf("a full disk is answered with %d %s", status, b)
	}
	// It does not look again within a second after it was ready.
	n.Until("/readyz tells that the disk is full", func() bool {
		status, b := n.HTTP(http.MethodGet, "/readyz", nil)
		return status == http.StatusServiceUnavailable && strings.Contains(string(b), "disk_full")
	})
	if out, err := exec.Command("prlimit", "--pid", fmt.Sprint(n.PID()), "--fsize=unlimited:unlimited").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if status, b := n.HTTP(http.MethodGet, "/readyz", nil); status != http.StatusOK {
		t.Errorf("with room again /readyz says %d %s", status, b)
	}
	if status, b := post(); status/100 != 2 {
		t.Errorf("with room again a change is answered with %d %s", status, b)
	}
	if a := n.Ask("hello", nil); a.Text != "noted" {
		t.Errorf("with room again a turn ends with %+v", a)
	}
}

func TestDoctorFindsADamagedPage(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{SQLite: true})
	for range 20 {
		n.Must("ask", "-q", "What is 6 times 7?")
	}
	if r := n.Run("doctor"); !strings.Contains(r.Out, "ok    database   sound") {
		t.Errorf("the doctor says of a sound database:\n%s%s", r.Out, r.Err)
	}
	path := n.Data("steward.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found, pages := 0, 0
	for page := 1; page < len(whole)/4096; page += 7 { // the first page is the header; one page of each kind is enough
		pages++
		broken := append([]byte{}, whole...)
		copy(broken[page*4096:], strings.Repeat("\x5a", 4096))
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		r := n.Run("doctor", "--json")
		var report struct {
			Checks []struct{ Name, Status string }
		}
		if err := json.Unmarshal([]byte(r.Out), &report); err != nil {
			t.Fatalf("%v: %s%s", err, r.Out, r.Err)
		}
		for _, c := range report.Checks {
			if c.Name == "database" && c.Status == "fail" && r.Code == 1 {
				found++
			}
		}
	}
	if found != pages {
		t.Errorf("of %d damaged pages the doctor finds %d", pages, found)
	}
}
