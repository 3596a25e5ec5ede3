package node

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/app"
	"steward/internal/settings"
	domainlocal "steward/internal/tools/local"
)

func TestHealthOfBuiltInTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			health domainlocal.Health
			want   check
		}{
			{domainlocal.Health{State: domainlocal.Ready, Say: "well"}, check{Name: "x", Status: good, Say: "well"}},
			{domainlocal.Health{State: domainlocal.Off, Say: "no server", Remedy: "name one"}, check{Name: "x", Status: off, Say: "no server", Remedy: "name one"}},
			{domainlocal.Health{State: domainlocal.Failing, Say: "down", Remedy: "start it"}, check{Name: "x", Status: warn, Say: "down", Remedy: "start it"}},
		} {
			if got := checkGroup(t.Context(), app.BuiltIn{Name: "x", Health: func(context.Context) domainlocal.Health { return tt.health }}); got != tt.want {
				t.Errorf("%+v", got)
			}
		}
		// A server that never answers, and tools that do not notice that their time is over.
		began, release := time.Now(), make(chan struct{})
		got := checkGroup(t.Context(), app.BuiltIn{Name: "x", Health: func(context.Context) domainlocal.Health {
			<-release
			return domainlocal.Health{}
		}})
		if close(release); got.Status != warn || !strings.Contains(got.Say, "20s") || time.Since(began) != groupTimeout {
			t.Errorf("%+v after %s", got, time.Since(began))
		}
	})
}

// A key that cannot encrypt is found before the first backup is due.
func TestABadKeyForBackupsIsFound(t *testing.T) {
	t.Parallel()
	set := &settings.Loaded{}
	set.Backup = settings.Backup{Folder: t.TempDir(), Every: time.Hour, Recipients: []string{"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"}}
	if got := checkBackups(set); got.Status != warn {
		t.Errorf("%+v", got)
	}
	set.Backup.Recipients = append(set.Backup.Recipients, "age1mistyped")
	if got := checkBackups(set); got.Status != bad || got.Code != "recipient_invalid" {
		t.Errorf("%+v", got)
	}
}
