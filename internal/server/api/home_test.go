package api_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"steward/client"
	"steward/internal/tool"
	"steward/internal/tools/home"
	"steward/internal/tools/local"
	"steward/test/homeassistant"
)

// newHome returns a home that is ana's, and its tools.
func newHome(t *testing.T, s *homeassistant.Server) (*home.Home, []tool.Tool) {
	t.Helper()
	h := home.New(home.Options{URL: s.URL, Token: homeassistant.Secret, Transport: http.DefaultTransport, For: tool.OwnedBy([]string{"ana"}, nil),
		Timing: home.Timing{Answer: 30 * time.Second, Wait: 30 * time.Second}})
	t.Cleanup(func() { h.Close() }) //nolint:errcheck // it returns none
	k := local.NewKit(tool.Env{Name: "home"}, "")
	home.Add(k, h)
	list, err := k.Tools()
	if err != nil {
		t.Fatal(err)
	}
	return h, list
}

// The home is shown to those who may use it. A command is a call of a tool: a person is asked, and nothing is
// sent before the answer.
func TestHomeOverTheAPI(t *testing.T) {
	called := make(chan homeassistant.Call, 9)
	s := homeassistant.Start(t, []homeassistant.Area{{ID: "kitchen", Name: "Kitchen"}},
		homeassistant.Entity{ID: "light.kitchen", Name: "Kitchen light", Area: "kitchen", State: "on", Attributes: map[string]any{"brightness": 128}},
		homeassistant.Entity{ID: "lock.front_door", Name: "Front door", State: "locked"},
		homeassistant.Entity{ID: "light.private", Name: "Private light", State: "on", Private: true})
	s.Do(func(s *homeassistant.Server) { s.Called = func(c homeassistant.Call) { called <- c } })
	h, tools := newHome(t, s)
	w := newTown(t, tools...)
	w.want("ana", "GET", "/home", "", 422, "home_off") // none is set up
	w.o.Home = h
	w.want("eve", "GET", "/home", "", 422, "home_off") // it is ana's
	w.want("eve", "POST", "/home/control", `{"device":"light.kitchen","action":"turn_off"}`, 422, "home_off")

	got := get[client.Home](w, "GET", "/home", "")
	if got.Total != 2 || len(got.Areas) != 2 || got.Areas[0].Name != "Kitchen" || got.Areas[1].Name != "" || got.Version != homeassistant.Version {
		t.Fatalf("%+v", got)
	}
	light, lock := got.Areas[0].Devices[0], got.Areas[1].Devices[0]
	if light.Guard != "" || light.Setting == nil || light.Setting.Name != "brightness" || light.Setting.Now != 50 || lock.Guard == "" || lock.Says != "locked" {
		t.Errorf("%+v %+v", light, lock)
	}
	if got := get[client.Home](w, "GET", "/home?query=front&limit=1", ""); got.Total != 1 || got.Areas[0].Devices[0].ID != "lock.front_door" {
		t.Errorf("%+v", got)
	}
	w.want("ana", "POST", "/home/control", `{"device":"light.private","action":"turn_off"}`, 404, "home_not_exposed")
	w.want("ana", "POST", "/home/control", `{"device":"light.kitchen","action":"explode"}`, 400, "args_invalid")

	for device, want := range map[string]string{`{"device":"light.kitchen","action":"turn_off"}`: "home.control", `{"device":"lock.front_door","action":"unlock"}`: "home.access"} {
		out := get[client.HomeOutcome](w, "POST", "/home/control", device)
		if out.Status != "waiting" || out.Tool != want || out.Approval == "" {
			t.Fatalf("%+v", out)
		}
		select {
		case c := <-called:
			t.Fatalf("%+v was done before anybody approved", c)
		default:
		}
		w.want("eve", "GET", "/approvals/"+url.PathEscape(out.Approval), "", 404, "not_found")
		q := get[struct{ Hash string }](w, "GET", "/approvals/"+url.PathEscape(out.Approval), "")
		w.want("ana", "POST", "/approvals/"+url.PathEscape(out.Approval), `{"approve":true,"hash":"`+q.Hash+`"}`, 204, "")
		<-called
	}

	// A program is not asked, and so it is refused.
	w.service = true
	w.want("ana", "POST", "/home/control", `{"device":"light.kitchen","action":"turn_on"}`, 200, `"status":"denied"`)
	w.want("ana", "GET", "/home", "", 200, "Kitchen light")
}
