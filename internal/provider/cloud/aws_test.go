package cloud

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	_ "steward/test/seed"
)

// The vectors are AWS's own: https://github.com/awslabs/aws-c-auth, tests/aws-signing-test-suite/v4,
// get-vanilla-with-session-token, get-utf8, get-header-value-trim, get-vanilla-query-order-encoded,
// post-x-www-form-urlencoded, get-space-unnormalized and get-unreserved.
func TestSignature(t *testing.T) {
	const session = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"
	for _, c := range []struct {
		method, path, query, body string
		header                    map[string]string
		session                   string
		signed, want              string
	}{
		{"GET", "/", "", "", nil, session, "host;x-amz-date;x-amz-security-token", "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
		{"GET", "/ሴ", "", "", nil, "", "host;x-amz-date", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
		{"GET", "/", "", "", map[string]string{"My-Header1": " value1", "My-Header2": ` "a   b   c"`}, "", "host;my-header1;my-header2;x-amz-date", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
		{"GET", "/", "Param-3=Value3&Param=Value2&%E1%88%B4=Value1", "", nil, "", "host;x-amz-date", "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
		{"POST", "/", "", "Param1=value1", map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Content-Length": "13", "X-Amz-Content-Sha256": "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"}, "",
			"content-length;content-type;host;x-amz-content-sha256;x-amz-date", "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"},
		{"GET", "/example space/", "", "", nil, "", "host;x-amz-date", "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
		{"GET", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "", "", nil, "", "host;x-amz-date", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
	} {
		r := &http.Request{Method: c.method, Host: "example.amazonaws.com", URL: &url.URL{RawQuery: c.query}, Header: http.Header{}}
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		signature(r, c.path, []byte(c.body), Keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", c.session}, "us-east-1", "service", time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
		want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=" + c.signed + ", Signature=" + c.want
		if got := r.Header.Get("Authorization"); got != want {
			t.Errorf("%s %s?%s:\n%s\nwant\n%s", c.method, c.path, c.query, got, want)
		}
	}
}

// pack returns a frame, as https://smithy.io/2.0/aws/amazon-eventstream.html describes it.
func pack(payload string, header ...string) []byte {
	var h []byte
	for i := 0; i < len(header); i += 2 {
		h = append(append(append(h, byte(len(header[i]))), header[i]...), 7)
		h = append(binary.BigEndian.AppendUint16(h, uint16(len(header[i+1]))), header[i+1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func chunk(json string) []byte {
	return pack(`{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(json))+`","p":"abcd"}`, ":message-type", "event", ":event-type", "chunk", ":content-type", "application/json")
}

// A frame of AWS's own: the example of https://github.com/emblica/aws-event-stream-parser-rs, which is
// one of the vectors of awslabs/aws-c-event-stream.
func TestAFrameOfAWS(t *testing.T) {
	const hexed = "\x00\x00\x00\x3d\x00\x00\x00\x20\x07\xfd\x83\x96\x0ccontent-type\x07\x00\x10application/json{'foo':'bar'}\x8d\x9c\x08\xb1"
	f, err := readFrame(strings.NewReader(hexed))
	if err != nil || f.header["content-type"] != "application/json" || string(f.payload) != "{'foo':'bar'}" {
		t.Errorf("%+v, %v", f, err)
	}
}

// Bedrock's frames read as Anthropic's events, however they are split, and exceptions as its errors.
func TestEventsOfBedrock(t *testing.T) {
	body := bytes.Join([][]byte{chunk(`{"type":"message_start"}`), pack("", ":message-type", "event", ":event-type", "initial-response"), chunk("{\"type\":\n\"ping\"}"),
		pack(`{"message":"slow down"}`, ":message-type", "exception", ":exception-type", "throttlingException"),
		pack("", ":message-type", "error", ":error-code", "Odd", ":error-message", "no\nidea")}, nil)
	const want = "data: {\"type\":\"message_start\"}\n\ndata: {\"type\": \"ping\"}\n\n" +
		`data: {"error":{"message":"throttlingException: slow down","type":"rate_limit_error"},"type":"error"}` + "\n\n" +
		`data: {"error":{"message":"Odd: no\nidea","type":"api_error"},"type":"error"}` + "\n\n"
	for _, r := range []io.Reader{bytes.NewReader(body), iotest.OneByteReader(bytes.NewReader(body)), iotest.DataErrReader(bytes.NewReader(body))} {
		got, err := io.ReadAll(&events{body: io.NopCloser(r)})
		if err != nil || string(got) != want {
			t.Errorf("%q, %v", got, err)
		}
	}
	for n := 1; n < len(body); n++ {
		_, err := io.ReadAll(&events{body: io.NopCloser(bytes.NewReader(body[:n]))})
		if !errors.Is(err, io.ErrUnexpectedEOF) && (err != nil || !frameEnds(body, n)) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
		broken := bytes.Clone(body)
		broken[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		if _, err := io.ReadAll(&events{body: io.NopCloser(bytes.NewReader(broken))}); err == nil {
			t.Errorf("a changed byte at %d is not noticed", at)
		}
	})
}

// frameEnds reports whether a frame of body ends at n.
func frameEnds(body []byte, n int) bool {
	for at := 0; at <= n; at += int(binary.BigEndian.Uint32(body[at:])) {
		if at == n {
			return true
		}
	}
	return false
}

// Whatever comes, reading frames ends without a panic, within the stated sizes.
func FuzzFrames(f *testing.F) {
	f.Add(chunk(`{"type":"message_stop"}`))
	f.Add(pack("{}", ":message-type", "exception", ":exception-type", "x"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := io.ReadAll(&events{body: io.NopCloser(bytes.NewReader(b))})
		if len(got) > 8*len(b)+1024 {
			t.Errorf("%d bytes became %d: %v", len(b), len(got), err)
		}
		if h, err := readHeader(b); err == nil && len(b) > 0 && h == nil {
			t.Error("a header without values is nil")
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A model's id is one segment of the path, also if it is an ARN. A Bedrock API key stands in for a
// signature.
func TestRequestsToBedrock(t *testing.T) {
	var got *http.Request
	base := transport(func(r *http.Request) (*http.Response, error) {
		got = r
		return &http.Response{StatusCode: 400, Header: http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}, Body: io.NopCloser(strings.NewReader("no frame"))}, nil
	})
	keys := func() (Keys, error) { return Keys{"ID", "SECRET", ""}, nil }
	send := func(a AWS, path string) error {
		r, err := http.NewRequest(http.MethodPost, "https://bedrock-runtime.eu-west-1.amazonaws.com", strings.NewReader(`{"a":1}`))
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Path = path
		resp, err := a.RoundTrip(r)
		if err == nil && resp.Header.Get("Content-Type") == "text/event-stream" {
			t.Error("a refusal is read as a stream")
		}
		return err
	}
	for path, want := range map[string]string{
		"/model/eu.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke-with-response-stream": "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream",
		"/model/arn:aws:bedrock:eu-west-1:1:application-inference-profile/x/invoke":       "/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Aapplication-inference-profile%2Fx/invoke",
		"/inference-profiles": "/inference-profiles",
	} {
		if err := send(AWS{Base: base, Region: "eu-west-1", Keys: keys}, path); err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(got.Body)
		if got.URL.EscapedPath() != want || string(body) != `{"a":1}` || !strings.Contains(got.Header.Get("Authorization"), "/eu-west-1/bedrock/aws4_request") {
			t.Errorf("%s, %s, %s", got.URL.EscapedPath(), body, got.Header.Get("Authorization"))
		}
	}
	if err := send(AWS{Base: base, Token: "bedrock-key"}, "/"); err != nil || got.Header.Get("Authorization") != "Bearer bedrock-key" || got.Header.Get("X-Amz-Date") != "" {
		t.Errorf("%v, %v", err, got.Header)
	}
	none := func() (Keys, error) { return KeysOf(func(string) string { return "" }) }
	if err := send(AWS{Base: base, Keys: none}, "/"); !fault.HasCode(err, "auth_failed") {
		t.Errorf("without keys: %v", err)
	}
}

func TestKeysOf(t *testing.T) {
	home := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(home, ".aws"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, ".aws", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(env ...string) (Keys, error) {
		return KeysOf(func(name string) string {
			for _, e := range append(env, "HOME="+home) {
				if v, ok := strings.CutPrefix(e, name+"="); ok {
					return v
				}
			}
			return ""
		})
	}
	if k, err := keys("AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_SESSION_TOKEN=c"); err != nil || k != (Keys{"a", "b", "c"}) {
		t.Errorf("%+v, %v", k, err)
	}
	write("credentials", "# mine\n[default]\naws_access_key_id = id1\naws_secret_access_key=s=1\n\n[work]\naws_access_key_id=id2\naws_secret_access_key=s2\naws_session_token = t2\n")
	write("config", "[default]\nregion=eu-west-1\n[profile far]\naws_access_key_id=id3\naws_secret_access_key=s3\n[profile role]\nrole_arn = arn:aws:iam::1:role/x\n")
	for profile, want := range map[string]Keys{"": {"id1", "s=1", ""}, "work": {"id2", "s2", "t2"}, "far": {"id3", "s3", ""}} {
		if k, err := keys("AWS_PROFILE=" + profile); err != nil || k != want {
			t.Errorf("%s: %+v, %v", profile, k, err)
		}
	}
	for profile, want := range map[string]string{"role": "role_arn", "none": "none of the profile none"} {
		if _, err := keys("AWS_PROFILE=" + profile); !fault.HasCode(err, "auth_failed") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", profile, err)
		}
	}
	if _, err := keys("AWS_SHARED_CREDENTIALS_FILE=" + home); !fault.HasCode(err, "auth_failed") {
		t.Errorf("a folder: %v", err)
	}
}
