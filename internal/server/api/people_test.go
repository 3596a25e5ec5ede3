package api_test

import (
	"strings"
	"testing"

	"steward/internal/tree"
)

func TestUsersOverTheAPI(t *testing.T) {
	w := newTown(t)
	const boss = "local+admin"
	w.want(boss, "POST", "/users", `{"user":"ana","display":"Ana","roles":["guest"]}`, 201, `"roles":["guest"]`)
	w.want(boss, "POST", "/users", `{"user":"ana"}`, 409, "user_exists")
	w.want(boss, "POST", "/users", `{"user":"ana","admin":true}`, 400, "unknown_member")
	w.want(boss, "PATCH", "/users/ana", `{"roles":["member"]}`, 200, `"display":"Ana","roles":["member"]`)
	w.want(boss, "PATCH", "/users/ana", `{"roles":["king"]}`, 400, "role_unknown")
	w.want(boss, "PATCH", "/users/local", `{"roles":["member"]}`, 403, "last_admin")
	w.want(boss, "GET", "/users", "", 200, `{"users":[{"user":"ana","display":"Ana","roles":["member"]`)
	w.want(boss, "GET", "/users/A", "", 400, "user_invalid")
	w.want("ana", "GET", "/users/ana", "", 200, `"groups":[]`)
	for _, c := range [][2]string{{"GET", "/users"}, {"POST", "/users"}, {"GET", "/users/bo"}, {"PATCH", "/users/ana"}, {"POST", "/groups"}} {
		w.want("ana", c[0], c[1], "{}", 403, "admin_only")
	}
	w.want(boss, "PATCH", "/users/ana", `{`, 400, "invalid_json")
}

func TestGroupsOverTheAPI(t *testing.T) {
	w := newTown(t)
	const boss = "local+admin"
	w.want(boss, "POST", "/groups", `{"name":"family","display":"The family","members":["ana"],"managers":["bo"]}`, 201, `"members":["ana","bo"],"managers":["bo"]`)
	w.want(boss, "POST", "/groups", `{"name":"family"}`, 409, "group_exists")
	w.want(boss, "POST", "/groups", `{"name":"x","owner":1}`, 400, "unknown_member")
	w.want("ana", "GET", "/groups", "", 200, `"name":"family"`)
	w.want("ana", "GET", "/groups/family", "", 200, `"name":"family"`)
	w.want("ana", "GET", "/users/ana", "", 200, `"groups":["family"]`)
	for _, eve := range []string{"family", "none"} { // she sees neither
		w.want("eve", "GET", "/groups/"+eve, "", 404, "group_not_found")
		w.want("eve", "PUT", "/groups/"+eve+"/members/eve", "", 404, "group_not_found")
		w.want("eve", "DELETE", "/groups/"+eve+"/members/ana", "", 404, "group_not_found")
		w.want("eve", "DELETE", "/groups/"+eve, "", 404, "group_not_found")
	}
	w.want("eve", "GET", "/groups", "", 200, `{"groups":[]}`)
	w.want("ana", "PUT", "/groups/family/members/eve", "", 403, "manager_only")
	w.want("ana", "DELETE", "/groups/family/members/bo", "", 403, "manager_only")
	w.want("ana", "DELETE", "/groups/family", "", 403, "admin_only")
	w.want("bo", "PUT", "/groups/family/members/cy", "", 200, `"cy"`)
	w.want("bo", "PUT", "/groups/family/members/cy", `{"manages":true}`, 200, `"managers":["bo","cy"]`)
	w.want("bo", "PUT", "/groups/family/members/cy", `{"x":true}`, 400, "unknown_member")
	w.want("bo", "PUT", "/groups/family/members/C", ``, 400, "user_invalid")
	w.want("bo", "DELETE", "/groups/family/members/cy", "", 200, `"managers":["bo"]`)
	w.want("ana", "DELETE", "/groups/family/members/ana", "", 200, `"members":["bo"]`)
	w.want(boss, "DELETE", "/groups/family/members/ana", "", 404, "not_a_member")
	w.want(boss, "DELETE", "/groups/family", "", 204, "")
	w.want(boss, "DELETE", "/groups/family", "", 404, "group_not_found")
}

func TestResourcesOverTheAPI(t *testing.T) {
	w := newTown(t)
	w.want("local+admin", "POST", "/groups", `{"name":"family","members":["ana","bo"]}`, 201, "")
	const item = "/resources/item?uri=cld:home.Note.a"
	status, answer, head := w.as("ana", "PUT", item+"&state=open", `{"purpose":"p","n":1}`)
	if status != 201 || head.Get("ETag") != `"1"` || !strings.Contains(answer, `"uri":"cld:identity.User.ana/home.Note.a"`) || !strings.Contains(answer, `"state":"open"`) {
		t.Fatalf("%d %s", status, answer)
	}
	w.want("ana", "PUT", item, `{"n":2}`, 200, `"version":2`, `If-Match: "1"`)
	w.want("ana", "PUT", item, `{"n":3}`, 409, "resource_changed", `If-Match: "1"`)
	w.want("ana", "PUT", item+"&version=1", `{"n":3}`, 409, "resource_changed")
	w.want("ana", "PUT", item, `{"n":3}`, 409, "resource_exists", `If-None-Match: *`)
	w.want("ana", "PUT", item+"&create=true", `{"n":3}`, 409, "resource_exists")
	for _, bad := range []string{"If-Match: 1", `If-Match: "x"`, "If-Match: *", `If-Match: "0"`, `If-None-Match: "1"`} {
		w.want("ana", "PUT", item, `{}`, 400, "version_invalid", bad)
	}
	w.want("ana", "PUT", item+"&version=x", `{}`, 400, "version_invalid")
	w.want("ana", "PUT", item+"&version=2", `{}`, 400, "version_invalid", `If-Match: "1"`)
	w.want("ana", "DELETE", item+"&version=x", ``, 400, "version_invalid")
	w.want("ana", "PUT", item, `{"a":1,"a":2}`, 400, "body_invalid")
	w.want("ana", "PUT", item, `{"a":"`+strings.Repeat("x", tree.MaxBody)+`"}`, 413, "too_large")
	w.want("ana", "PUT", "/resources/item?uri=cld:home.Note.", `{}`, 400, "uri_invalid")
	w.want("ana", "PUT", "/resources/item", `{}`, 400, "uri_missing")
	w.want("ana", "PUT", "/resources/item?uri=cld:common.Message.a", `{}`, 403, "resource_owned")
	w.want("bo", "PUT", "/resources/item?uri=cld:identity.User.ana/home.Note.a", `{}`, 403, "space_denied")
	w.want("bo", "PUT", item+"&space=user:ana", `{}`, 403, "space_denied")

	status, answer, head = w.as("ana", "GET", item, "")
	if status != 200 || head.Get("ETag") != `"2"` || !strings.Contains(answer, `"body":{"n":2}`) || !strings.Contains(answer, `"actor":"ana"`) {
		t.Errorf("%d %s", status, answer)
	}
	w.want("ana", "GET", item, "", 304, "", `If-None-Match: "2"`)
	w.want("ana", "GET", item+"&version=1", "", 200, `"purpose":"p"`)
	w.want("ana", "GET", item+"&version=9", "", 404, "not_found")
	w.want("ana", "GET", item+"&version=-1", "", 400, "version_invalid")
	w.want("bo", "GET", "/resources/item?uri=cld:identity.User.ana/home.Note.a", "", 404, "not_found")
	w.want("ana", "PUT", "/resources/item?uri=cld:home.Note.shared&space=group:family", `{}`, 201, `"space":"group:family"`)
	w.want("bo", "GET", "/resources/item?uri=cld:home.Note.shared&space=group:family", "", 200, `"actor":"ana"`)
	w.want("eve", "GET", "/resources/item?uri=cld:home.Note.shared&space=group:family", "", 404, "not_found")

	w.want("ana", "GET", "/resources?type=home.Note&limit=1", "", 200, `"next":"t.`)
	w.want("bo", "GET", "/resources?type=home.Note", "", 200, `{"resources":[{"uri":"cld:identity.Group.family/home.Note.shared"`)
	w.want("eve", "GET", "/resources?type=home.Note", "", 200, `{"resources":[]}`)
	w.want("ana", "GET", "/resources?under=cld:home.Note.a&bodies=true&since=2020-01-01T00:00:00Z&until=2999-01-01T00:00:00Z", "", 200, `"body":{"n":2}`)
	for path, code := range map[string]string{"?limit=x": "limit_invalid", "?since=x": "time_invalid", "?until=x": "time_invalid", "?under=x": "uri_invalid", "?after=x": "cursor_invalid", "?space=x": "space_invalid", "?type=x": "type_invalid"} {
		w.want("ana", "GET", "/resources"+path, "", 400, code)
	}
	w.want("ana", "PUT", "/resources/item?uri=cld:home.Note.a/home.Part.p", `{}`, 201, "")
	w.want("ana", "GET", "/resources/parents?uri=cld:home.Note.a/home.Part.p", "", 200, `{"resources":[{"uri":"cld:identity.User.ana/home.Note.a"`)
	w.want("ana", "GET", "/resources/parents", "", 400, "uri_missing")
	w.want("ana", "GET", "/resources/history?uri=cld:home.Note.a&limit=1", "", 200, `"version":2`)
	w.want("ana", "GET", "/resources/history?uri=cld:home.Note.a&limit=x", "", 400, "limit_invalid")
	w.want("ana", "GET", "/resources/history?uri=x", "", 400, "uri_invalid")
	w.want("bo", "GET", "/resources/history?uri=cld:identity.User.ana/home.Note.a", "", 404, "not_found")

	w.want("ana", "DELETE", item, "", 409, "resource_changed", `If-Match: "1"`)
	w.want("bo", "DELETE", "/resources/item?uri=cld:identity.User.ana/home.Note.a", "", 403, "space_denied")
	w.want("ana", "DELETE", "/resources/item", "", 400, "uri_missing")
	w.want("ana", "DELETE", item, "", 204, "", `If-Match: "2"`)
	w.want("ana", "DELETE", item, "", 404, "not_found")
	w.want("ana", "DELETE", item+"&erase=true", "", 204, "")
	w.want("ana", "GET", "/resources/item", "", 400, "uri_missing")
}
