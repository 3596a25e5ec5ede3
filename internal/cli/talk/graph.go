package talk

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/memory/graph"
	"steward/internal/memory/graph/rdf"
	graphtool "steward/internal/tools/graph"
	"steward/internal/tools/local"
)

func (a *program) graphCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "graph", Short: "Ask and extend the graph of people, things and relations", GroupID: "keep",
		Long: "The graph holds statements such as: Ann works at Acme. Each points to what it comes from, and is erased\n" +
			"with that. Agents use it with the tools graph.neighbours, graph.query and graph.assert.",
	}, a.graphNeighbours(), a.graphQuery(), a.graphAssert(), a.graphImport(), a.graphExport(), a.graphForget())
}

func (a *program) graphNeighbours() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "neighbours NAME…", Short: "Show what is known of someone or something, and where it comes from", Args: cobra.MinimumNArgs(1),
		Example: "  steward graph neighbours Ann"}
	c.Flags().IntVar(&limit, "limit", 50, "show at most `N` relations")
	return a.APICommand(command.NeedReadOnly, c, func(ctx context.Context, s *command.Session, args []string) error {
		e, err := s.Neighbours(ctx, strings.Join(args, " "), limit)
		return command.PrintValue(a.Program, e, err, func(e client.Entity) string { return plainLines(graphtool.Text(e)) })
	})
}

func (a *program) graphQuery() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "query SPARQL", Short: "Answer a query in SPARQL", Args: cobra.ExactArgs(1),
		Long:    "Answer a SELECT, ASK or CONSTRUCT query. With - the query is read from standard input.",
		Example: "  steward graph query 'SELECT ?who { ?who <urn:steward:relation:works_at> ?where }'"}
	c.Flags().IntVar(&limit, "limit", 1000, "show at most `N` rows")
	return a.APICommand(command.NeedReadOnly, c, func(ctx context.Context, s *command.Session, args []string) error {
		query := args[0]
		if query == "-" {
			b, err := io.ReadAll(io.LimitReader(a.Stdin, 1<<20))
			if err != nil {
				return err
			}
			query = string(b)
		}
		answer, err := s.QueryGraph(ctx, query, limit)
		return command.PrintValue(a.Program, answer, err, a.answerText)
	})
}

// answerText shows the answer to a query.
func (a *program) answerText(answer client.GraphAnswer) string {
	switch {
	case answer.Boolean != nil:
		return map[bool]string{true: "yes\n", false: "no\n"}[*answer.Boolean]
	case answer.Vars == nil:
		return plainLines(answer.Triples)
	}
	rows := [][]string{answer.Vars}
	for _, r := range answer.Rows {
		var row []string
		for _, v := range answer.Vars {
			row = append(row, command.PlainLine(r[v]))
		}
		rows = append(rows, row)
	}
	lines, _ := command.Table(make([]command.Column, len(answer.Vars)), rows, a.Width())
	if answer.More {
		lines = append(lines, "there are more: raise --limit")
	}
	return strings.Join(lines, "\n") + "\n"
}

func (a *program) graphAssert() *cobra.Command {
	var value bool
	c := &cobra.Command{Use: "assert SUBJECT RELATION OBJECT", Short: "Add a statement", Args: cobra.ExactArgs(3),
		Long:    "Add a statement. Names mean entities and relations of that name; IRIs mean themselves.",
		Example: "  steward graph assert Ann 'works at' Acme\n  steward graph assert Ann age 41 --value"}
	c.Flags().BoolVar(&value, "value", false, "OBJECT is a text, number or day, and no entity")
	return a.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		t := client.NewTriple{Subject: args[0], Predicate: args[1], Object: args[2]}
		if value {
			t.Object, t.Value = "", args[2]
		}
		got, err := s.AssertTriple(ctx, t)
		return a.PrintDone(got, err, "added %s", statements(got.Triples))
	})
}

func statements(n int) string {
	if n == 1 {
		return "1 statement"
	}
	return fmt.Sprintf("%d statements", n)
}

// formatOf returns the format of a file by its name.
func formatOf(name, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".ttl":
		return graph.Turtle, nil
	case ".nt":
		return graph.NTriples, nil
	case ".jsonld", ".json":
		return graph.JSONLD, nil
	}
	return "", fault.New(fault.Invalid, "graph_format_unsupported", "the name %q does not tell the format", name).WithHint("give --format turtle, ntriples or jsonld")
}

func (a *program) graphImport() *cobra.Command {
	var format, source string
	var own bool
	c := &cobra.Command{Use: "import FILE", Short: "Add the statements of a file in Turtle, N-Triples or JSON-LD", Args: cobra.ExactArgs(1),
		Long: "Add the statements of a file. They count as text of others unless --own says that the content is yours.\n" +
			"Their source is the file: steward graph forget removes them again.",
		Example: "  steward graph import team.ttl"}
	f := c.Flags()
	f.StringVar(&format, "format", "", "the `FORMAT`: turtle, ntriples or jsonld; by default the one that the name tells")
	f.StringVar(&source, "source", "", "the `SOURCE` of the statements; by default file: and the file's name")
	f.BoolVar(&own, "own", false, "the content is your own, and need not be treated as text of others")
	command.CompleteFlag(c, "format", command.Words(graph.Turtle, graph.NTriples, graph.JSONLD))
	return a.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		kind, err := formatOf(args[0], format)
		if err != nil {
			return err
		}
		b, err := local.ReadFile(args[0], rdf.MaxBytes)
		if err != nil {
			return err
		}
		if source == "" {
			source = "file:" + filepath.Base(args[0])
		}
		got, err := s.ImportGraph(ctx, client.GraphDocument{Format: kind, Text: string(b), Source: source, Own: own})
		return a.PrintDone(got, err, "added %s from %s", statements(got.Triples), source)
	})
}

func (a *program) graphExport() *cobra.Command {
	var format, source string
	c := &cobra.Command{Use: "export", Short: "Print all statements in Turtle, N-Triples or JSON-LD", Args: cobra.NoArgs}
	c.Flags().StringVar(&format, "format", graph.Turtle, "the `FORMAT`: turtle, ntriples or jsonld")
	c.Flags().StringVar(&source, "source", "", "only the statements of the `SOURCE`")
	command.CompleteFlag(c, "format", command.Words(graph.Turtle, graph.NTriples, graph.JSONLD))
	return a.APICommand(command.NeedReadOnly, c, func(ctx context.Context, s *command.Session, _ []string) error {
		d, err := s.ExportGraph(ctx, format, source)
		return command.PrintValue(a.Program, d, err, func(d client.GraphDocument) string { return d.Text })
	})
}

func (a *program) graphForget() *cobra.Command {
	c := &cobra.Command{Use: "forget SOURCE", Short: "Erase all statements of a source", Args: cobra.ExactArgs(1),
		Example: "  steward graph forget file:team.ttl"}
	return a.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		got, err := s.ForgetGraph(ctx, args[0])
		return a.PrintDone(got, err, "erased %s", statements(got.Triples))
	})
}
