package openai

import (
	"strings"
	"testing"
)

func TestTheListOfServersIsComplete(t *testing.T) {
	for _, s := range known() {
		if s.Name == "" || s.Title == "" || s.BaseURL == "" && s.URLEnv == "" || s.KeyEnv == "" && !s.Local || !strings.HasPrefix(s.Source, "https://") || len(s.Date) != 10 {
			t.Errorf("%+v", s)
		}
	}
}
