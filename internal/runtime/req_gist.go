package runtime

import (
	"context"
	"iter"
	"strings"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// lastRun returns the newest run of an interaction.
func lastRun(ctx context.Context, st store.Store, sc store.Scope, inter resource.URI) (run record.Run, found bool, err error) {
	for it, err := range store.Items(ctx, st, sc, store.Query{Under: inter, Type: record.TypeRun}) {
		if err != nil {
			return run, false, err
		}
		var r record.Run
		if err := record.Decode(it.URI, it.Body, &r); err != nil {
			return run, false, err
		}
		if r.ID, _ = id.Parse(it.URI.ID()); !found || r.Started.After(run.Started) {
			run, found = r, true
		}
	}
	return run, found, nil
}

// gist sums up all messages below a place.
type gist struct {
	final   *message.Message // the newest one; nil: there is none
	labels  message.Labels
	sources []string
	denied  []string // tools, sorted
	called  []string // tools, sorted
	replies int      // of models
	offline bool     // the offline model wrote one of them
	failed  bool     // a call did
}

func sumUp(ctx context.Context, st store.Store, sc store.Scope, under resource.URI) (s gist, err error) {
	for m, err := range messagesUnder(ctx, st, sc, under) {
		if err != nil {
			return gist{}, err
		}
		s.labels |= message.LabelsOf(m.Blocks)
		s.sources = message.JoinSources(s.sources, message.SourcesOf(m.Blocks))
		if m.Model != "" {
			s.replies++
			s.offline = s.offline || strings.HasPrefix(m.Model, "offline/")
		}
		for _, c := range m.Calls() {
			s.called = message.JoinSources(s.called, []string{c.Name})
		}
		if r := m.Result(); r != nil {
			s.failed = s.failed || r.Status != message.OK && r.Status != message.Accepted && r.Status != message.Queued
			s.denied = message.JoinSources(s.denied, r.Denied)
			if r.Status == message.DeniedCall {
				s.denied = message.JoinSources(s.denied, []string{r.Name})
			}
		}
		if m.Final && (s.final == nil || m.At.After(s.final.At)) {
			s.final = m
		}
	}
	return s, nil
}

// messagesUnder yields the messages stored at or below a place.
func messagesUnder(ctx context.Context, st store.Store, sc store.Scope, under resource.URI) iter.Seq2[*message.Message, error] {
	return func(yield func(*message.Message, error) bool) {
		for it, err := range store.Items(ctx, st, sc, store.Query{Under: under, Type: record.TypeMessage}) {
			var m *message.Message
			if err == nil {
				m, err = record.DecodeMessage(it.URI, it.Body)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}
