package tokens_test

import (
	"testing"

	"steward/internal/message"
	"steward/internal/tokens"
)

func TestCounters(t *testing.T) {
	var c tokens.Calibrator
	m := text(message.User, prose()[0].text)
	p := tokens.OfMessage(m)
	if k := c.For("a/b"); k.Kind() != tokens.KindEstimated || k.Message(m) != tokens.Message(m) || k.AtMost(m) != tokens.Message(m) || k.Overhead() != 0 || k.Request(p) != p.Tokens() {
		t.Errorf("%s: %d, %d, %d", k.Kind(), k.Message(m), k.AtMost(m), k.Overhead())
	}
	before := c.For("a/b")
	for i := range int64(20) {
		var many tokens.Parts
		for range i + 1 {
			many = many.Add(p)
		}
		c.Learn("a/b", many, many.Tokens()*6/10+500)
	}
	k := c.For("a/b")
	if got, whole := k.Message(m), tokens.Message(m); k.Kind() != tokens.KindCalibrated || got < whole*58/100 || got > whole*8/10 || k.AtMost(m) != got {
		t.Errorf("%s: %d of %d", k.Kind(), got, whole)
	}
	if got := k.Overhead(); got < 480 || got > 600 {
		t.Errorf("a request takes %d more", got)
	}
	if k.Text(prose()[0].text) >= tokens.Estimate(prose()[0].text) || k.Tools(weather()) == 0 {
		t.Error("texts and tools are not calibrated")
	}
	if before.Kind() != tokens.KindEstimated || before.Message(m) != tokens.Message(m) {
		t.Error("a counter changed under the hand")
	}
	// A sum of counts is on the safe side of the count of the sum.
	if one, two := k.Parts(p), k.Parts(p.Add(p)); 2*one < two {
		t.Errorf("%d twice, %d together", one, two)
	}
	var zero tokens.Counter
	if zero.Kind() != tokens.KindEstimated || zero.Message(m) != tokens.Message(m) {
		t.Error("the zero counter does not estimate")
	}
}

func BenchmarkCount(b *testing.B) {
	v := newVendor(1)
	var c tokens.Calibrator
	for range 50 {
		p := v.request()
		c.Learn("m", p, v.reports(p))
	}
	k, p := c.For("m"), v.request()
	for b.Loop() {
		k.Parts(p)
	}
}
