package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
)

var asked = runtime.RequestView{ID: id.ID{15: 8}, Kind: record.RequestTurn, Title: "2+2?", State: record.RequestAnswered, Started: at, Ended: at.Add(2 * time.Second),
	Usage: message.Usage{Input: 3}, Cost: 0.5, Below: []runtime.RequestView{
		{ID: id.ID{15: 9}, Kind: record.RequestTask, Tool: "math.add", State: record.RequestOpen, Status: record.TaskRunning, Progress: 0.25, Started: at}}}

const askedJSON = `{"id":"00000000-0000-0000-0000-000000000008","kind":"turn","title":"2+2?","state":"answered","started":"2030-01-02T03:04:05Z",` +
	`"ended":"2030-01-02T03:04:07Z","took_ms":2000,"usage":{"input":3},"cost":0.5,"below":[` +
	`{"id":"00000000-0000-0000-0000-000000000009","kind":"task","tool":"math.add","state":"open","status":"running","progress":0.25,"started":"2030-01-02T03:04:05Z"}]}`

// Requests has one, of ana's.
func (d *double) Requests(_ context.Context, user string, all bool, limit int) ([]runtime.RequestView, error) {
	d.asked = fmt.Sprint(user, "|", all, "|", limit)
	if d.fail != nil || user != "ana" {
		return nil, d.fail
	}
	return []runtime.RequestView{asked}, nil
}

func (d *double) RequestTree(_ context.Context, user, which string) (runtime.RequestView, error) {
	d.asked = which
	if user != "ana" {
		return runtime.RequestView{}, fault.New(fault.NotFound, "request_not_found", "there is no request %q", which)
	}
	return asked, nil
}

func (d *double) CancelRequest(_ context.Context, user, which string) error {
	d.asked = which
	if user != "ana" {
		return fault.New(fault.NotFound, "request_not_found", "there is no request %q", which)
	}
	return d.fail
}

func (d *double) ResumeRequest(ctx context.Context, user, which string) error {
	return d.CancelRequest(ctx, user, which)
}

func (d *double) EverybodysRequests(ctx context.Context, all bool, limit int) ([]runtime.RequestView, error) {
	return d.Requests(ctx, "ana", all, limit)
}

func TestRequests(t *testing.T) {
	answers(t, []exchange{
		{"ana", "GET", "/requests", "", 200, `{"requests":[` + askedJSON + `]}`, "ana|false|100"},
		{"ana", "GET", "/requests?all=true&limit=5", "", 200, `{"requests":[` + askedJSON + `]}`, "ana|true|5"},
		{"eve", "GET", "/requests", "", 200, `{"requests":[]}`, "eve|false|100"},
		{"ana", "GET", "/requests/00000000-0000", "", 200, askedJSON, "00000000-0000"},
		{"ana", "DELETE", "/requests/00000000-0000", "", 204, "", "00000000-0000"},
	}...)
	refuses(t, []exchange{
		{"eve", "GET", "/requests/x", "", 404, "request_not_found", ""},
		{"eve", "DELETE", "/requests/x", "", 404, "request_not_found", ""},
		{"eve", "GET", "/requests?all_users=true", "", 403, "admin_only", ""},
		{"eve", "POST", "/requests/x/resume?user=ana", "", 403, "admin_only", ""},
	}...)
}
