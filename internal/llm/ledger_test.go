package llm

import (
	"testing"
	"time"
)

// A day that was forgotten, because another node may have worked for the user, is loaded again. A call from before
// changes nothing about it.
func TestAForgottenDayIsLoadedAgain(t *testing.T) {
	l := NewDayLedger(nil)
	now := time.Now()
	l.Add("anna", now, Spend{Tokens: 100})
	_, _, before := l.look("anna", now)
	l.Forget("anna")
	l.Load("anna", now, Spend{Tokens: 30})
	l.addTo(before, Spend{Tokens: -100})
	if got, _ := l.Spent("anna", now); got.Tokens != 30 {
		t.Errorf("%+v", got)
	}
}
