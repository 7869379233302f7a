package fusebox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fusebox-go/fusebox"
)

func TestErrorTextHoldsNoSecret(t *testing.T) {
	const secret = "Zq7xK2mP9vLw4Rt8"
	for _, text := range []string{
		"401: Incorrect API key provided: sk-" + secret,
		"401: sk-proj-" + secret + "-" + secret + " is not valid",
		"Authorization: Bearer " + secret,
		"authorization: bearer " + secret + ", then some",
		`{"authorization":"Bearer ` + secret + `"}`,
		`headers: map[Authorization:[Bearer ` + secret + `]]`,
		"Authorization: Basic " + secret + "==",
		"Proxy-Authorization: Basic " + secret,
		"Authorization: Token " + secret,
		"Authorization: " + secret,
		`Authorization: {"token":"` + secret + `"}`,
		`authorization: "token":"` + secret + `"`,
		"bearer   " + secret,
		"x-api-key: " + secret,
		"X-Api-Key=" + secret,
		"x-goog-api-key: " + secret,
		`{"api_key": "` + secret + `"}`,
		`{'apiKey': '` + secret + `'}`,
		"api key: " + secret,
		`\"api_key\":\"` + secret + `\"`,
		"GET https://api.example.com/v1?key=AIza" + secret + secret + ": timeout",
		"GET https://api.example.com/v1?key=" + secret + "&n=1: timeout",
		"GET https://api.example.com/v1?access_token=" + secret + ": timeout",
		"dial postgres://user:" + secret + "@db:5432/x: refused",
		"dial redis://:" + secret + "@db:6379/0: refused",
		"password=" + secret,
		"passwd: " + secret,
		"PGPASSWORD=" + secret,
		"client_secret=" + secret,
		"aws_secret_access_key = " + secret,
		"OPENAI_API_KEY=" + secret,
		"ghp_" + secret + " was revoked",
		"github_pat_" + secret,
		"xoxb-" + secret,
		"hf_" + secret,
		"AKIA" + strings.ToUpper(secret),
		"session eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI" + secret + "." + secret,
		"Cookie: session=" + secret,
		"Set-Cookie: sid=" + secret + "; Path=/",
		strings.Repeat("long ", 150) + "Bearer " + secret + secret,
		strings.Repeat(" ", 780) + "https://u:" + secret + "@h/",
		"first line\nAuthorization: Bearer\n " + secret,
	} {
		have := fusebox.ErrorText(errors.New(text))
		if strings.Contains(strings.ToLower(have), strings.ToLower(secret)[:8]) {
			t.Errorf("%q\nkept as %q", text, have)
		}
	}
}

func TestErrorTextKeepsWhatHelps(t *testing.T) {
	for _, text := range []string{
		"context deadline exceeded",
		"dial tcp 127.0.0.1:11434: connect: connection refused",
		"HTTP 429: rate limit reached for gpt-5: 30000 tokens per minute",
		"maximum context length is 8192 tokens, you asked for 9000 tokens: shorten it",
		"Post \"https://api.example.com/v1/chat/completions\": EOF",
		"exit status 1",
		"lookup of key 4521 failed",
		"invalid token at offset 12",
		"the key-value store is down",
		"task-12345678 is not done",
	} {
		if have := fusebox.ErrorText(errors.New(text)); have != text {
			t.Errorf("%q\nkept as %q", text, have)
		}
	}
}

func TestErrorText(t *testing.T) {
	inner := errors.New("inner")
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"nil":             {nil, ""},
		"plain":           {inner, "inner"},
		"many lines":      {errors.New("a\r\n\tb\x00c\u0085d  e"), "a b c d e"},
		"not UTF-8":       {errors.New("a\xffb"), "ab"},
		"marked":          {fusebox.Fail(fusebox.ClassCrash, inner), "inner"},
		"marked, wrapped": {fmt.Errorf("outer: %w", fusebox.Reject(inner)), "inner"},
		"marked, no text": {fusebox.Reject(nil), "fusebox: rejected"},
		"cut":             {errors.New(strings.Repeat("é", 150)), strings.Repeat("é", 98) + "…"},
	} {
		t.Run(name, func(t *testing.T) { want(t, "text", fusebox.ErrorText(test.err), test.want) })
	}
}

func TestOutcomesAndClassesHaveOneSpelling(t *testing.T) {
	for o := fusebox.Success; o <= fusebox.Canceled; o++ {
		parsed, err := fusebox.ParseOutcome(o.String())
		if err != nil || parsed != o {
			t.Errorf("%v is read as %v, %v", o, parsed, err)
		}
	}
	for _, c := range fusebox.Classes {
		if parsed, err := fusebox.ParseClass(string(c)); err != nil || parsed != c {
			t.Errorf("%v is read as %v, %v", c, parsed, err)
		}
	}
	for _, bad := range []string{"", "Success", "ok", "failure "} {
		if _, err := fusebox.ParseOutcome(bad); err == nil || !strings.Contains(err.Error(), "success, rejected") {
			t.Errorf("outcome %q: %v", bad, err)
		}
		if _, err := fusebox.ParseClass(bad); err == nil || !strings.Contains(err.Error(), "timeout, connect") {
			t.Errorf("class %q: %v", bad, err)
		}
	}
	want(t, "an outcome of no name", fusebox.Outcome(99).String(), "outcome(99)")
}

func FuzzErrorText(f *testing.F) {
	for _, s := range []string{"", "x", "a\xff\x00\u2028b", "Authorization: Bearer Zq7xK2mP9vLw4Rt8", strings.Repeat("é", 500),
		"postgres://u:p@h " + strings.Repeat("key=", 300), strings.Repeat(" ", 900)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		have := fusebox.ShortText(s)
		if len(have) > 200 || !utf8.ValidString(have) || strings.ContainsAny(have, "\n\r\x00") {
			t.Fatalf("%q is kept as %q", s, have)
		}
		for _, shape := range []string{"Authorization: Bearer %s", "api_key=%s", "sk-%s", "https://u:%s@h/", `"token":"%s"`} {
			const secret = "Zq7xK2mP9vLw4Rt8"
			if strings.Contains(s, secret[:8]) {
				return
			}
			have := fusebox.ShortText(s + " " + fmt.Sprintf(shape, secret))
			if strings.Contains(have, secret[:8]) {
				t.Fatalf("%q after %q is kept as %q", shape, s, have)
			}
		}
	})
}
