package cloud

import (
	"cmp"
	"errors"
	"net/http"

	"steward/internal/llm"
)

// Sign returns a transport that signs in at Google. See llm.Vendor.SignIn.
func Sign(base http.RoundTripper, key string, getenv func(string) string) http.RoundTripper {
	return &Google{Base: base, Key: key, Getenv: getenv}
}

// Vertex returns the function that completes where Vertex AI has a publisher's models. See
// llm.Vendor.Locate.
func Vertex(publisher string) func(llm.Site, func(string) string) (llm.Site, error) {
	return func(at llm.Site, getenv func(string) string) (llm.Site, error) {
		at.Region = cmp.Or(at.Region, "global")
		at.Project = cmp.Or(at.Project, getenv("GOOGLE_CLOUD_PROJECT"))
		if at.Project == "" {
			return at, errors.New("needs a project: the Google Cloud project to bill")
		}
		host := at.Region + "-aiplatform.googleapis.com"
		switch at.Region {
		case "global":
			host = "aiplatform.googleapis.com"
		case "us", "eu":
			host = "aiplatform." + at.Region + ".rep.googleapis.com"
		}
		at.BaseURL = cmp.Or(at.BaseURL, "https://"+host) + "/v1/projects/" + at.Project + "/locations/" + at.Region + "/publishers/" + publisher
		return at, nil
	}
}
