// Package deploy tests what installs and observes Steward (the folder deploy, .goreleaser.yaml) without the programs
// that read it: the metrics that are asked for are those that the built binary exports, and what names a file, a
// setting or a flag names one that is there.
package deploy

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/goccy/go-yaml"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/test/edge"
	"steward/test/must"
)

func TestMain(m *testing.M) { os.Exit(edge.Main(m)) }

const repo = "../.."

func file(t testing.TB, name string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join(repo, name)))
}

// read decodes a YAML file, whose faults it reports.
func read[T any](t testing.TB, name string) (out T) {
	t.Helper()
	if err := yaml.Unmarshal(file(t, name), &out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Targets []struct{ Expr string }
	}
}

type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// named returns the metrics that an expression of PromQL asks for.
func named(t testing.TB, expr string) (names []string) {
	t.Helper()
	e, err := metricsql.Parse(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
	if err != nil {
		t.Errorf("%s: %v", expr, err)
		return nil
	}
	metricsql.VisitAll(e, func(e metricsql.Expr) {
		m, ok := e.(*metricsql.MetricExpr)
		if !ok {
			return
		}
		for _, or := range m.LabelFilterss {
			for _, f := range or {
				if f.Label == "__name__" {
					names = append(names, f.Value)
				}
			}
		}
	})
	return names
}

// family returns the name of a metric without what histograms add to it.
func family(name string) string {
	for _, end := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, end); ok && strings.HasSuffix(base, "_seconds") || ok && strings.HasSuffix(base, "_batches") {
			return base
		}
	}
	return name
}

// exported returns the names of the metrics of the built binary: those that it serves after a turn, and of those
// that appear with the first messenger, the names in the code.
func exported(t *testing.T) map[string]bool {
	n := edge.New(t, edge.Options{Settings: "metrics: {listen: '127.0.0.1:0'}\n"})
	n.Serve()
	var at []string
	n.Until("the log says where the metrics are", func() bool {
		at = regexp.MustCompile(`metrics are served" url=(http://[0-9.:]+)/`).FindStringSubmatch(n.Log())
		return at != nil
	})
	n.HTTP(http.MethodGet, "/readyz", nil)
	n.Dial().Turn(map[string]any{"content": "What is 3 times 4?"}, nil)
	resp := must.Get(http.Get(at[1] + "/metrics"))
	defer resp.Body.Close()
	text := string(must.Get(io.ReadAll(resp.Body)))
	var code []byte
	for _, name := range []string{"internal/lifetime/telemetry/metrics.go", "internal/lifetime/telemetry/follower.go", "internal/app/observe.go"} {
		code = append(code, file(t, name)...)
	}
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
		if strings.HasPrefix(m[1], "steward_") && !bytes.Contains(code, []byte(`"`+m[1]+`"`)) {
			t.Errorf("%s is served, and not in the list of the code", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`"(steward_[a-z_]*[a-z])"`).FindAllSubmatch(code, -1) {
		if name := string(m[1]); strings.Contains(name, "_channel_") || strings.Contains(name, "_occurrences") {
			all[name] = true
		} else if !all[name] && name != "steward_model_cost_dollars_total" && name != "steward_intent_transitions_total" { // the turn costs nothing, and does nothing
			t.Errorf("%s is in the code, and not served", name)
		} else {
			all[name] = true
		}
	}
	for _, name := range []string{"inbox", "outbox", "unsettled", "connected"} {
		all["steward_channel_"+name] = true
	}
	return all
}

func TestMetricsOfDashboardAndAlertsAreExported(t *testing.T) {
	t.Parallel()
	all := exported(t)
	var d dashboard
	if err := json.Unmarshal(file(t, "deploy/grafana/steward.json"), &d); err != nil || len(d.Panels) < 20 {
		t.Fatalf("%d panels, %v", len(d.Panels), err)
	}
	asked := map[string]bool{}
	check := func(where, expr string) {
		names := named(t, expr)
		if len(names) == 0 {
			t.Errorf("%s asks for no metric", where)
		}
		for _, name := range names {
			asked[family(name)] = true
			if !all[family(name)] && name != "up" {
				t.Errorf("%s asks for %s, which is not exported", where, name)
			}
		}
	}
	for i, p := range d.Panels {
		if p.ID != i+1 || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("the panel %d is %+v", i, p)
		}
		for _, x := range p.Targets {
			check(p.Title, x.Expr)
		}
	}
	for name := range all {
		if strings.HasPrefix(name, "steward_") && !asked[name] && name != "steward_channel_connected" && name != "steward_follower_stuck_seconds" {
			t.Errorf("no panel shows %s", name)
		}
	}
	alerts := read[rules](t, "deploy/prometheus/alerts.yml")
	for _, r := range alerts.Groups[0].Rules {
		check(r.Alert, r.Expr)
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" {
			t.Errorf("%s has no severity or summary", r.Alert)
		}
	}
	// A value of a label that no metric ever has makes an alert that never fires.
	values := map[string][]string{"outcome": {"answered", "failed", "suspended", "committed", "refused"}, "job": {"steward"},
		"state": {record.OccurrenceDue, record.OccurrenceDone, record.OccurrenceFailed, record.OccurrenceMissed, record.OccurrenceSkipped}}
	for _, s := range []message.Status{message.OK, message.Failed, message.DeniedCall, message.Queued, message.Accepted, message.Unavailable, message.UnknownEnd, message.Interrupted} {
		values["outcome"] = append(values["outcome"], string(s))
	}
	values["outcome"] = append(values["outcome"], string(fault.Cancelled))
	for _, s := range intent.States() {
		values["state"] = append(values["state"], string(s))
	}
	for _, r := range alerts.Groups[0].Rules {
		for _, m := range regexp.MustCompile(`([a-z_]+)(?:=|!=|=~|!~)"([^"]*)"`).FindAllStringSubmatch(r.Expr, -1) {
			for _, v := range strings.Split(m[2], "|") {
				if !slices.Contains(values[m[1]], v) {
					t.Errorf("%s asks for %s=%q, which is never there", r.Alert, m[1], v)
				}
			}
		}
	}
	if len(alerts.Groups[0].Rules) < 10 {
		t.Errorf("%d alerts", len(alerts.Groups[0].Rules))
	}
	docs := string(file(t, "docs/operations/observe.md"))
	for name := range all {
		if short := strings.TrimPrefix(name, "steward_channel"); strings.HasPrefix(name, "steward_") && !strings.Contains(docs, name) && !strings.Contains(docs, "`"+short+"`") {
			t.Errorf("docs/operations/observe.md does not explain %s", name)
		}
	}
}

// What is deployed names settings, flags and files that there are.
func TestDeployedNamesAreThere(t *testing.T) {
	t.Parallel()
	known := string(file(t, "docs/reference/settings.md"))
	texts := map[string]string{}
	for _, name := range []string{"deploy/Dockerfile", "deploy/Dockerfile.release", "deploy/compose.yaml", "deploy/compose.cluster.yaml", "deploy/systemd/steward.service", "deploy/helm/steward/templates/steward.yaml"} {
		texts[name] = string(file(t, name))
		for _, v := range regexp.MustCompile(`STEWARD_[A-Z_]+`).FindAllString(texts[name], -1) {
			if !strings.Contains(known, v) {
				t.Errorf("%s sets %s, which is no setting", name, v)
			}
		}
	}
	for _, name := range []string{"deploy/Dockerfile", "deploy/Dockerfile.release"} {
		stages := strings.Split(texts[name], "\nFROM ")
		if last := stages[len(stages)-1]; !strings.Contains(last, "gcr.io/distroless/static") || !strings.Contains(last, "--chown=65532:65532") || !strings.Contains(last, "\nUSER 65532:65532\n") {
			t.Errorf("%s: the image is not distroless, or runs as root", name)
		}
	}
	n := edge.New(t, edge.Options{})
	help := n.Must("serve", "--help")
	for _, flag := range []string{"--wait", "--config"} {
		if !strings.Contains(help, flag) || !strings.Contains(texts["deploy/systemd/steward.service"], flag) {
			t.Errorf("%s is no flag of serve, or the unit does not use it", flag)
		}
	}
	out := n.Must("config", "show", "--config", must.Get(filepath.Abs(repo+"/deploy/debian/steward.yaml")))
	if !strings.Contains(out, "json") {
		t.Errorf("the settings of the Debian package are not read: %s", out)
	}
	settings := filepath.Join(t.TempDir(), "steward.yaml")
	must.Do(t, os.WriteFile(settings, must.Get(yaml.Marshal(read[map[string]any](t, "deploy/helm/steward/values.yaml")["settings"])), 0o600))
	n.Must("config", "show", "--config", settings)
	for _, line := range strings.Split(texts["deploy/systemd/steward.service"], "\n") {
		if !regexp.MustCompile(`^(#.*|\[[A-Z][a-z]+\]|[A-Z][A-Za-z]+=.*|)$`).MatchString(line) {
			t.Errorf("the unit has the line %q", line)
		}
		// These mount something over a part of /proc, and then the kernel lets no sandbox mount a /proc of its own.
		if regexp.MustCompile(`^(ProtectKernelTunables|ProtectKernelLogs|ProtectHostname|ProtectProc|ProcSubset|RestrictNamespaces)=`).MatchString(line) {
			t.Errorf("the unit has %s, and so no program runs in a sandbox", line)
		}
	}
	for _, file := range []string{"deploy/compose.yaml", "deploy/compose.cluster.yaml"} {
		compose := read[struct {
			Services map[string]struct {
				Volumes []string
				Build   any
				Image   string
			}
			Volumes map[string]any
		}](t, file)
		for name, s := range compose.Services {
			for _, v := range s.Volumes {
				from, _, _ := strings.Cut(v, ":")
				if _, err := os.Stat(filepath.Join(repo, "deploy", from)); strings.HasPrefix(from, ".") && err != nil {
					t.Errorf("%s: %s: %v", file, name, err)
				} else if _, ok := compose.Volumes[from]; !strings.HasPrefix(from, ".") && !ok {
					t.Errorf("%s: %s: there is no volume %s", file, name, from)
				}
			}
		}
	}
	read[map[string]any](t, "deploy/prometheus/prometheus.yml")
}

// release is what of .goreleaser.yaml the tests look at.
type release struct {
	Version int
	Builds  []releaseBuild
	Nfpms   []struct {
		Formats  []string
		Contents []struct{ Src, Dst string }
		Scripts  map[string]string
	}
	Archives []struct{ Files []struct{ Src string } }
	Sboms    []struct{ Artifacts string }
	Dockers  []struct {
		Images     []string
		Dockerfile string
	} `yaml:"dockers_v2"`
}

type releaseBuild struct {
	Main, Binary        string
	Goos, Goarch        []string
	Flags, Ldflags, Env []string
	ModTimestamp        string `yaml:"mod_timestamp"`
}

// A release is built with the flags of scripts/build, for all systems, of files that there are.
func TestReleaseIsBuiltAsTestsAre(t *testing.T) {
	t.Parallel()
	r := read[release](t, ".goreleaser.yaml")
	b := r.Builds[0]
	if r.Version != 2 || !slices.Equal(b.Goos, []string{"linux", "darwin", "windows"}) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) || b.ModTimestamp == "" || len(r.Sboms) == 0 {
		t.Errorf("%+v", r)
	}
	script := string(file(t, "scripts/build"))
	for _, flag := range []string{"-trimpath", "-tags=grpcnotrace"} {
		if !slices.Contains(b.Flags, flag) || !strings.Contains(script, strings.Replace(flag, "=", " ", 1)) {
			t.Errorf("%s is not in both", flag)
		}
	}
	if !strings.HasPrefix(b.Ldflags[0], "-s -w -X main.version=") || !strings.Contains(script, `"-s -w${VERSION:+ -X main.version=$VERSION}"`) || !slices.Contains(b.Env, "CGO_ENABLED=0") {
		t.Errorf("it is linked with %v", b.Ldflags)
	}
	// GoReleaser pushes images, and one without a registry to that of Docker, where steward is somebody else's name.
	if images := r.Dockers[0].Images; len(images) != 1 || !strings.Contains(images[0], `envOrDefault "STEWARD_IMAGE" ""`) {
		t.Errorf("the images are %v", images)
	}
	names := []string{b.Main, r.Dockers[0].Dockerfile}
	for _, n := range r.Nfpms {
		for _, c := range n.Contents {
			names = append(names, c.Src)
		}
		for _, s := range n.Scripts {
			names = append(names, s)
		}
	}
	for _, a := range r.Archives {
		for _, c := range a.Files {
			names = append(names, c.Src)
		}
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(repo, name)); err != nil {
			t.Error(err)
		}
	}
}

// The chart makes YAML, with its values and with all that can be turned on. The functions are those of Helm
// (https://helm.sh/docs/chart_template_guide/function_list/) that it uses.
func TestTheChartMakesYAML(t *testing.T) {
	t.Parallel()
	toYaml := func(v any) string { return strings.TrimSuffix(string(must.Get(yaml.Marshal(v))), "\n") }
	indent := func(n int, s string) string {
		pad := strings.Repeat(" ", n)
		return pad + strings.ReplaceAll(s, "\n", "\n"+pad)
	}
	funcs := template.FuncMap{"toYaml": toYaml, "indent": indent, "nindent": func(n int, s string) string { return "\n" + indent(n, s) },
		"quote": func(s any) string { return fmt.Sprintf("%q", fmt.Sprint(s)) }, "sha256sum": func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) },
		"default": func(otherwise, s any) any {
			if s == "" {
				return otherwise
			}
			return s
		},
		"gt": func(a, b int) bool { return a > b }, "int": func(v any) int { return must.Get(strconv.Atoi(fmt.Sprint(v))) },
		"until": func(n int) []int {
			return slices.Collect(func(yield func(int) bool) {
				for i := 0; i < n && yield(i); i++ {
				}
			})
		},
		"list": func(all ...any) []any { return all }, "concat": func(all ...[]any) []any { return slices.Concat(all...) },
		"join": func(by string, list []any) string {
			var out []string
			for _, x := range list {
				out = append(out, fmt.Sprint(x))
			}
			return strings.Join(out, by)
		}}
	tmpl := template.Must(template.New("").Funcs(funcs).Option("missingkey=error").Parse(string(file(t, "deploy/helm/steward/templates/steward.yaml"))))
	chart := read[map[string]any](t, "deploy/helm/steward/Chart.yaml")
	for _, all := range []bool{false, true} {
		values := read[map[string]any](t, "deploy/helm/steward/values.yaml")
		if all {
			values["environmentSecret"] = "keys"
			values["hosts"] = []any{"steward.example"}
			values["replicas"] = 3
			values["metrics"].(map[string]any)["serviceMonitor"] = true
			values["storage"].(map[string]any)["className"] = "fast"
		}
		var out bytes.Buffer
		if err := tmpl.Execute(&out, map[string]any{"Values": values, "Chart": map[string]any{"AppVersion": chart["appVersion"]}, "Release": map[string]any{"Name": "one", "Namespace": "home"}}); err != nil {
			t.Fatal(err)
		}
		kinds := map[string]map[string]any{}
		for dec := yaml.NewDecoder(&out); ; {
			var doc map[string]any
			err := dec.Decode(&doc)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			kinds[doc["kind"].(string)] = doc
		}
		if len(kinds) != 3+map[bool]int{true: 1}[all] || kinds["StatefulSet"] == nil {
			t.Errorf("it makes %d kinds", len(kinds))
		}
		set := string(must.Get(json.Marshal(kinds["StatefulSet"])))
		for _, want := range []string{`"runAsNonRoot":true`, `"serviceName":"one-nodes"`, `"enableServiceLinks":false`, `"readOnlyRootFilesystem":true`, `"path":"/readyz"`, `one.home.svc`} {
			if !strings.Contains(set, want) {
				t.Errorf("the StatefulSet has no %s: %s", want, set)
			}
		}
		if strings.Contains(set, "one-0.one-nodes.home.svc:6222,one-1.one-nodes.home.svc:6222,one-2.one-nodes.home.svc:6222") != all {
			t.Errorf("three replicas are a cluster, and one is none: %s", set)
		}
	}
}
