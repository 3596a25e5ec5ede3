package home

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// maxChanges is how many changes a result shows: the newest.
const maxChanges = 60

// change is a state in the answer of /api/history/period.
type change struct {
	State string    `json:"state"`
	At    time.Time `json:"last_changed"`
}

func (h *Home) history(ctx context.Context, in tool.Invocation, a historyArgs) (string, error) {
	_, d, err := h.device(ctx, a.stateArgs)
	if err != nil {
		return "", err
	}
	hours := a.Hours
	if hours == 0 {
		hours = 24
	}
	now := h.opt.Time()
	changes, err := h.changes(ctx, d.ID, now.Add(-time.Duration(hours)*time.Hour), now)
	if err != nil {
		return "", err
	}
	return d.told(changes, hours, h.opt.Location(in.User)), nil
}

// changes asks for the states of an entity in a period. See developers.home-assistant.io/docs/api/rest.
func (h *Home) changes(ctx context.Context, id string, from, to time.Time) ([]change, error) {
	token, err := h.opt.Token(ctx)
	if err != nil {
		return nil, err
	}
	q := url.Values{"filter_entity_id": {id}, "end_time": {to.UTC().Format(time.RFC3339)}, "minimal_response": {""}, "no_attributes": {""}}
	ctx, cancel := context.WithTimeout(ctx, h.opt.Timing.Answer)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(h.opt.URL, "/")+"/api/history/period/"+from.UTC().Format(time.RFC3339)+"?"+q.Encode(), nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "home_url_invalid", "home.url is not an address: %w", err).WithHint("write it like http://homeassistant.local:8123")
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, body, err := local.Ask(h.opt.Transport, req, maxHistory, "home_unavailable")
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, h.unavailable("it answers a request for history with %s", resp.Status)
	}
	var lists [][]change
	if err := json.Unmarshal(body, &lists); err != nil {
		return nil, h.unavailable("its history cannot be read, or is too long: %w", err)
	}
	if len(lists) == 0 {
		return nil, nil
	}
	return lists[0], nil
}

// told shows changes: of numbers the least, the most and the last, with up to maxChanges values.
func (d device) told(changes []change, hours int, zone *time.Location) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in the last %d hours:", d.label(), hours)
	if len(changes) == 0 {
		return b.String() + " nothing is recorded."
	}
	least, most, numbers := math.Inf(1), math.Inf(-1), 0
	for _, c := range changes {
		if n, err := strconv.ParseFloat(c.State, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
			least, most, numbers = min(least, n), max(most, n), numbers+1
		}
	}
	if numbers > 0 {
		fmt.Fprintf(&b, " from %s to %s", d.says(strconv.FormatFloat(least, 'f', -1, 64)), d.says(strconv.FormatFloat(most, 'f', -1, 64)))
	}
	step := 1
	if numbers > maxChanges { // a curve keeps its form
		step = (len(changes) + maxChanges - 1) / maxChanges
	} else if skip := len(changes) - maxChanges; skip > 0 {
		fmt.Fprintf(&b, "\n(%d earlier changes)", skip)
		changes = changes[skip:]
	}
	for i := 0; i < len(changes); i += step {
		c := changes[i]
		b.WriteString("\n- " + c.At.In(zone).Format("Mon 2 Jan 15:04") + ": " + d.says(local.Line(c.State, 100)))
	}
	return b.String()
}
