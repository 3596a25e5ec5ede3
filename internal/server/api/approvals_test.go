package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/runtime"
)

var waits = effect.Question{ID: "cld:effect.Intent.1", Short: id.ID{15: 7}.String(), Tool: "files.write", Version: "1", Args: jsontext.Value(`{"path":"a"}`),
	User: "ana", Labels: []string{"private"}, Reason: "files.write changes something", Pattern: intent.Pattern{"path": {Is: jsontext.Value(`"a"`)}},
	Asked: at, Expires: at.Add(time.Hour), Hash: "h1", Yours: true}

const waitsJSON = `{"id":"cld:effect.Intent.1","intent_id":"00000000-0000-0000-0000-000000000007","tool":"files.write","version":"1","args":{"path":"a"},"user":"ana",` +
	`"labels":["private"],"reason":"files.write changes something","pattern":{"path":{"is":"a"}},"asked":"2030-01-02T03:04:05Z","expires":"2030-01-02T04:04:05Z","hash":"h1","yours":true}`

var given = runtime.GrantView{Grant: effect.Grant{ID: id.ID{15: 9}, User: "ana", Tool: "files.write", Version: "1", Pattern: intent.Pattern{"path": {Like: "a*"}},
	Standing: effect.Always, By: "ana", Created: at, Intent: "cld:effect.Intent.1"}, Labels: []string{"private"}, State: "active"}

const givenJSON = `{"id":"00000000-0000-0000-0000-000000000009","user":"ana","tool":"files.write","version":"1","pattern":{"path":{"like":"a*"}},` +
	`"standing":"always","by":"ana","created":"2030-01-02T03:04:05Z","intent":"cld:effect.Intent.1","labels":["private"],"state":"active"}`

func (d *double) note(parts ...any) error {
	b, err := json.Marshal(parts)
	d.asked = string(b)
	return errors.Join(err, d.fail)
}

func (d *double) Approvals(_ context.Context, user string) ([]effect.Question, error) {
	if err := d.note(user); err != nil || user != "ana" {
		return nil, err
	}
	return []effect.Question{waits}, nil
}

func (d *double) Approval(_ context.Context, user, which string, p intent.Pattern) (effect.Question, error) {
	if err := d.note(user, which, p); err != nil {
		return effect.Question{}, err
	}
	if user != "ana" || which != waits.ID {
		return effect.Question{}, fault.New(fault.NotFound, "approval_not_found", "there is no question %q", which)
	}
	return waits, nil
}

func (d *double) Decide(_ context.Context, user string, v runtime.Verdict) error {
	return d.note(user, v)
}

func (d *double) Grants(_ context.Context, user string, all bool) ([]runtime.GrantView, error) {
	if err := d.note(user, all); err != nil || user != "ana" {
		return nil, err
	}
	return []runtime.GrantView{given}, nil
}

func (d *double) grantOf(user string, x id.ID) (runtime.GrantView, error) {
	if user != "ana" || x != given.ID {
		return runtime.GrantView{}, fault.New(fault.NotFound, "grant_not_found", "there is no standing approval %s", x)
	}
	return given, d.fail
}

func (d *double) Grant(_ context.Context, user string, x id.ID) (runtime.GrantView, error) {
	return d.grantOf(user, x)
}

func (d *double) ShowGrantEdit(_ context.Context, user string, x id.ID, ed effect.GrantEdit) (runtime.GrantEdited, error) {
	if err := d.note(user, ed); err != nil {
		return runtime.GrantEdited{}, err
	}
	g, err := d.grantOf(user, x)
	return runtime.GrantEdited{Grant: g, Wider: true, Hash: "h2"}, err
}

func (d *double) EditGrant(_ context.Context, user string, x id.ID, ed effect.GrantEdit) (runtime.GrantView, error) {
	if err := d.note(user, ed); err != nil {
		return runtime.GrantView{}, err
	}
	return d.grantOf(user, x)
}

func (d *double) RevokeGrant(_ context.Context, user string, x id.ID) error {
	_, err := d.grantOf(user, x)
	return err
}

func TestApprovals(t *testing.T) {
	one := "/approvals/" + url.PathEscape(waits.ID)
	pattern := `{"path":{"like":"a*"}}`
	grant := "/grants/" + given.ID.String()
	answers(t, []exchange{
		{"ana", "GET", "/approvals", "", 200, `{"approvals":[` + waitsJSON + `]}`, `["ana"]`},
		{"eve", "GET", "/approvals", "", 200, `{"approvals":[]}`, `["eve"]`},
		{"ana", "GET", one, "", 200, waitsJSON, `["ana","cld:effect.Intent.1",null]`},
		{"ana", "GET", one + "?pattern=" + url.QueryEscape(pattern), "", 200, waitsJSON, `["ana","cld:effect.Intent.1",` + pattern + `]`},
		{"ana", "POST", one, `{"approve":true,"hash":"h1"}`, 204, "",
			`["ana",{"ID":"cld:effect.Intent.1","Hash":"h1","Approve":true,"Reason":"","Standing":"","Pattern":null,"Until":"0001-01-01T00:00:00Z","Args":null}]`},
		{"ana", "POST", one, `{"approve":true,"hash":"h1","standing":"once","args":{"path":"b"}}`, 204, "",
			`["ana",{"ID":"cld:effect.Intent.1","Hash":"h1","Approve":true,"Reason":"","Standing":"","Pattern":null,"Until":"0001-01-01T00:00:00Z","Args":"eyJwYXRoIjoiYiJ9"}]`},
		{"ana", "POST", one, `{"approve":true,"hash":"h1","standing":"always","pattern":` + pattern + `,"until":"2030-01-02T03:04:05Z"}`, 204, "",
			`["ana",{"ID":"cld:effect.Intent.1","Hash":"h1","Approve":true,"Reason":"","Standing":"always","Pattern":` + pattern + `,"Until":"2030-01-02T03:04:05Z","Args":null}]`},
		{"ana", "POST", one, `{"approve":false,"hash":"h1","reason":"no"}`, 204, "",
			`["ana",{"ID":"cld:effect.Intent.1","Hash":"h1","Approve":false,"Reason":"no","Standing":"","Pattern":null,"Until":"0001-01-01T00:00:00Z","Args":null}]`},
		{"ana", "GET", "/grants", "", 200, `{"grants":[` + givenJSON + `]}`, `["ana",false]`},
		{"ana", "GET", "/grants?all=true", "", 200, `{"grants":[` + givenJSON + `]}`, `["ana",true]`},
		{"eve", "GET", "/grants", "", 200, `{"grants":[]}`, `["eve",false]`},
		{"ana", "GET", grant, "", 200, givenJSON, ``},
		{"ana", "POST", grant + "/preview", `{"pattern":` + pattern + `,"until":"never"}`, 200, `{"grant":` + givenJSON + `,"wider":true,"hash":"h2"}`,
			`["ana",{"Pattern":` + pattern + `,"Until":"0001-01-01T00:00:00Z","Standing":"","Labels":null,"Hash":""}]`},
		{"ana", "PATCH", grant, `{"standing":"conversation","labels":["private"],"hash":"h2"}`, 200, givenJSON,
			`["ana",{"Pattern":null,"Until":null,"Standing":"conversation","Labels":1,"Hash":"h2"}]`},
		{"ana", "DELETE", grant, "", 204, "", ``},
	}...)
}

func TestApprovalsRefuse(t *testing.T) {
	one, grant := "/approvals/"+url.PathEscape(waits.ID), "/grants/"+given.ID.String()
	refuses(t, []exchange{
		{"eve", "GET", one, "", 404, "approval_not_found", ""},
		{"ana", "GET", one + "?pattern=x", "", 400, "invalid_json", ""},
		{"ana", "POST", one, `{"hash":"h"}`, 400, "member_missing", ""},
		{"ana", "POST", one, `{"approve":true}`, 400, "member_missing", ""},
		{"ana", "POST", one, `{"approve":true,"hash":"h","odd":1}`, 400, "unknown_member", ""},
		{"ana", "POST", one, `{"approve":true,"hash":"h","until":"soon"}`, 400, "member_invalid", ""},
		{"ana", "POST", one, `{"approve":false,"hash":"h","standing":"always"}`, 400, "approval_invalid", ""},
		{"ana", "GET", "/grants/x", "", 404, "grant_not_found", ""},
		{"eve", "GET", grant, "", 404, "grant_not_found", ""},
		{"eve", "PATCH", grant, `{}`, 404, "grant_not_found", ""},
		{"eve", "POST", grant + "/preview", `{}`, 404, "grant_not_found", ""},
		{"eve", "DELETE", grant, "", 404, "grant_not_found", ""},
		{"ana", "PATCH", grant, `{"until":"soon"}`, 400, "member_invalid", ""},
		{"ana", "PATCH", grant, `{"labels":["odd"]}`, 400, "message_label_unknown", ""},
	}...)
}
