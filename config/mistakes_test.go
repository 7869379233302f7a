package config

import (
	"errors"
	"strings"
	"testing"
)

// mistakes are single mistakes, each with the place where it stands and a part
// of the message.
var mistakes = []struct{ name, text, at, message string }{
	{"unknown key", "quroum: 2", "1:1", `did you mean "quorum"?`},
	{"unknown key, far from any", "flavour: 2", "1:1", `have the unknown key "flavour"; leave it out`},
	{"unknown key, deep", "circuits:\n  model/*:\n    cooldown: {aftr: 30s}", "3:16", `did you mean "after"?`},
	{"hyphen for underscore", "circuits: {model/*: {on-class: [auth]}}", "1:22", `did you mean "on_class"?`},
	{"unknown key in a rule", "circuits: {a: {trip: [{strek: 3}]}}", "1:24", `did you mean "streak"?`},
	{"unknown key for a needed one", "circuits: {a: {trip: [{count: 3, witin: 60m}]}}", "1:34", `did you mean "within"?`},
	{"no unit", "keep: 720", "1:7", "say the unit: 720s"},
	{"wrong unit", "keep: 30d", "1:7", "write days as hours: 720h"},
	{"unknown unit", "circuits: {a: {cooldown: {after: 5 minutes}}}", "1:34", "the units are ms, s, m and h"},
	{"negative duration", "retry: {wait: -5s}", "1:15", "at least 0s"},
	{"wrong type: map", "gateway: 127.0.0.1:4040", "1:10", "want a map with the keys listen, token"},
	{"wrong type: list", "circuits: {a: {trip: {streak: 3}}}", "1:22", "want a list of rules"},
	{"wrong type: number in quotes", `quorum: "2"`, "1:9", "without quotes"},
	{"worker that ends as a process's name", "worker: web:7", "1:9", "does not end in a colon and a number"},
	{"wrong type: text", "worker: 12", "1:9", `put it in quotes: "12"`},
	{"wrong type: boolean", "circuits: {a: {distinct: yes}}", "1:26", "want true or false"},
	{"wrong type: percent", "circuits: {a: {cooldown: {jitter: 20%}}}", "1:35", "without quotes or %"},
	{"wrong type: root", "- store: x", "1:1", "want a map"},
	{"fraction for a whole number", "quorum: 1.5", "1:9", "want a whole number"},
	{"threshold below 1", "circuits: {a: {trip: [{streak: 0}]}}", "1:32", "from 1"},
	{"count below 1", "circuits: {a: {trip: [{count: -1, within: 60s}]}}", "1:31", "from 1"},
	{"of below count", "circuits: {a: {trip: [{count: 5, of: 3, within: 60s}]}}", "1:38", "want at least the count (5)"},
	{"share above 1", "circuits: {a: {trip: [{rate: 1.5, within: 60s, calls: 20}]}}", "1:30", "from 0 to 1"},
	{"share of 0", "circuits: {a: {trip: [{rate: 0, within: 60s, calls: 20}]}}", "1:30", "share above 0"},
	{"count without window", "circuits: {a: {trip: [{count: 3}]}}", "1:23", "want the key within, have none"},
	{"window beside a streak", "circuits: {a: {trip: [{streak: 3, within: 60s}]}}", "1:43", "want no within beside streak"},
	{"two rules in one", "circuits: {a: {trip: [{streak: 3, count: 3, within: 60s}]}}", "1:23", "have streak and count in one"},
	{"no rule", "circuits: {a: {trip: [{within: 60s}]}}", "1:23", "say streak, count, rate or slow"},
	{"unknown class", "circuits: {a: {on_class: [atuh]}}", "1:27", `did you mean "auth"?`},
	{"class twice", "circuits: {a: {on_class: [auth, auth]}}", "1:33", "each class once"},
	{"both after and calls", "circuits: {a: {cooldown: {after: 30s, calls: 2}}}", "1:46", "have both"},
	{"max below after", "circuits: {a: {cooldown: {after: 30s, max: 10s}}}", "1:44", "want at least cooldown.after (30s), have 10s"},
	{"jitter above 1", "circuits: {a: {cooldown: {jitter: 20}}}", "1:35", "from 0 to 1"},
	{"growth below 1", "circuits: {a: {cooldown: {growth: 0.5}}}", "1:35", "from 1 to 100"},
	{"no probes", "circuits: {a: {probe: {concurrent: 0}}}", "1:36", "from 1 to 1000"},
	{"unit", "circuits: {a: {unit: call}}", "1:22", "visit or attempt"},
	{"on_open", "circuits: {a: {on_open: stop-run}}", "1:25", `did you mean "stop_run"?`},
	{"guard as boolean", "circuits: {a: {guard: false}}", "1:23", "want on or off"},
	{"invalid pattern: two stars", "circuits: {tool/**: {guard: off}}", "1:12", "two stars in a row"},
	{"invalid pattern: dots", "circuits: {../x: {guard: off}}", "1:12", "path segment"},
	{"invalid pattern: space", "circuits: {a b: {guard: off}}", "1:12", "space"},
	{"pattern without quotes", "circuits:\n  *: {guard: off}", "2:6", "goes in quotes"},
	{"duplicate key", "quorum: 2\nkeep: 1h\nquorum: 3", "3:1", `have "quorum" again; merge it with the one on line 1`},
	{"duplicate circuit in another spelling", "circuits: {a/b: {guard: off}, A//B: {guard: on}}", "1:31", "again"},
	{"duplicate backend", "backends:\n  x: {url: http://a/v1, dialect: openai}\n  X: {url: http://b/v1, dialect: openai}", "3:3", "again"},
	{"duplicate route", "backends: {x: {url: http://a/v1, dialect: openai}}\nroutes:\n- {match: m, backends: [x]}\n- {match: m, backends: [x]}", "4:11", "again"},
	{"duplicate server", "mcp:\n  servers:\n    s: {command: [a]}\n    s: {command: [b]}", "4:5", "again"},
	{"thrash repeats below 2", "thrash: {repeats: 1}", "1:19", "some calls fail once and heal"},
	{"thrash same_error of 1", "thrash: {same_error: 1}", "1:22", "2 or more, or 0"},
	{"thrash switched otherwise", "thrash: of", "1:9", "a map, or off"},
	{"bad JSON pointer", "thrash: {ignore: [/a~b]}", "1:19", "want a JSON pointer"},
	{"max below base", "retry: {base: 5s, max: 1s}", "1:24", "at least the base (5s)"},
	{"no attempts", "retry: {attempts: 0}", "1:19", "from 1 to 100"},
	{"key without variable", "backends: {x: {url: http://a/v1, dialect: openai, key: {env: }}}", "1:61", "want the name of a variable"},
	{"key of nothing", "backends: {x: {url: http://a/v1, dialect: openai, key: {}}}", "1:56", "name one place"},
	{"key in two places", "backends: {x: {url: http://a/v1, dialect: openai, key: {env: A, file: b}}}", "1:56", "name one place"},
	{"variable with a dollar", "backends: {x: {url: http://a/v1, dialect: openai, key: {env: $A}}}", "1:62", "without $"},
	{"unknown backend", "backends: {local: {url: http://a/v1, dialect: openai}}\nroutes: [{match: '*', backends: [locla]}]", "2:34", `did you mean "local"?`},
	{"route to no backend", "routes: [{match: '*', backends: []}]", "1:33", "want at least one backend, have an empty list"},
	{"backend twice in a route", "backends: {x: {url: http://a/v1, dialect: openai}}\nroutes: [{match: '*', backends: [x, x]}]", "2:37", "each backend once"},
	{"weight without a priority", "backends: {x: {url: http://a/v1, dialect: openai}, y: {url: http://b/v1, dialect: openai}}\nroutes: [{match: m, backends: [{backend: x, weight: 3}, y]}]", "2:53", `say which it shares with others`},
	{"weight of nothing", "backends: {x: {url: http://a/v1, dialect: openai}, y: {url: http://b/v1, dialect: openai}}\nroutes: [{match: m, backends: [{backend: x, priority: 1, weight: 0}]}]", "2:66", `from 1 to 1000`},
	{"priority of nothing", "backends: {x: {url: http://a/v1, dialect: openai}, y: {url: http://b/v1, dialect: openai}}\nroutes: [{match: m, backends: [{backend: x, priority: first}]}]", "2:55", `from 1 to 1000`},
	{"priorities that fall", "backends: {x: {url: http://a/v1, dialect: openai}, y: {url: http://b/v1, dialect: openai}}\nroutes: [{match: m, backends: [{backend: x, priority: 2}, {backend: y, priority: 1}]}]", "2:82", `have 1 after 2`},
	{"a priority that a name has", "backends: {x: {url: http://a/v1, dialect: openai}, y: {url: http://b/v1, dialect: openai}}\nroutes: [{match: m, backends: [x, {backend: y, priority: 1}]}]", "2:58", `say {backend: x, priority: 1}`},
	{"place without a backend", "backends: {x: {url: http://a/v1, dialect: openai}, y: {url: http://b/v1, dialect: openai}}\nroutes: [{match: m, backends: [{priority: 1}]}]", "2:32", `want the key backend, have none`},
	{"place with an unknown key", "backends: {x: {url: http://a/v1, dialect: openai}, y: {url: http://b/v1, dialect: openai}}\nroutes: [{match: m, backends: [{backend: x, wieght: 1}]}]", "2:45", `did you mean "weight"?`},
	{"backend twice, with weights", "backends: {x: {url: http://a/v1, dialect: openai}, y: {url: http://b/v1, dialect: openai}}\nroutes: [{match: m, backends: [{backend: x, priority: 1}, {backend: x, priority: 1}]}]", "2:69", `each backend once`},
	{"route without match", "backends: {x: {url: http://a/v1, dialect: openai}}\nroutes: [{backends: [x]}]", "2:10", "want the key match"},
	{"answers", "backends: {x: {url: http://a/v1, dialect: openai}}\nroutes: [{match: m, backends: [x], answers: hold}]", "2:45", "pass or whole"},
	{"answers that are not served", "backends: {x: {url: http://a/v1, dialect: openai}}\nroutes: [{match: m, backends: [x], answers: splice}]", "2:45", "pass or whole"},
	{"no attempts", "backends: {x: {url: http://a/v1, dialect: openai}}\nroutes: [{match: m, backends: [x], attempts: 0}]", "2:46", "want a whole number from 1 to 100"},
	{"next_on that is no list", "backends: {x: {url: http://a/v1, dialect: openai}}\nroutes: [{match: m, backends: [x], next_on: y}]", "2:45", "want a list of code"},
	{"limit of nothing", "backends: {x: {url: http://a/v1, dialect: openai, limit: {concurrent: 0}}}", "1:71", "want a whole number from 1 to 100000"},
	{"limit by nobody", "backends: {x: {url: http://a/v1, dialect: openai, limit: {per_minute: 9, by: team}}}", "1:78", `want process or fleet`},
	{"limit of nobody", "backends: {x: {url: http://a/v1, dialect: openai, limit: {by: fleet}}}", "1:58", `say what is limited`},
	{"check too often", "backends: {x: {url: http://a/v1, dialect: openai, check: {every: 500ms}}}", "1:66", `a duration of at least 1s`},
	{"check without a path", "backends: {x: {url: http://a/v1, dialect: openai, check: {path: models}}}", "1:65", `begin it with /`},
	{"check with a query", "backends: {x: {url: http://a/v1, dialect: openai, check: {path: /models?a=b}}}", "1:65", `without ? and #`},
	{"check with an unknown key", "backends: {x: {url: http://a/v1, dialect: openai, check: {evry: 2s}}}", "1:59", `did you mean "every"?`},
	{"probe as text", "backends: {x: {url: http://a/v1, dialect: openai, check: {probe: yes}}}", "1:66", `want true or false`},
	{"bad URL", "backends: {x: {url: 'http://a b/', dialect: openai}}", "1:21", "want a URL"},
	{"URL without scheme", "backends: {x: {url: 'localhost:11434/v1', dialect: openai}}", "1:21", "begins with http:// or https://"},
	{"URL without host", "backends: {x: {url: 'http:///v1', dialect: openai}}", "1:21", "with a host"},
	{"URL with a path of the dialect", "backends: {x: {url: http://a/v1/chat/completions, dialect: openai}}", "1:21", "leave /chat/completions out"},
	{"URL with a port that cannot be", "backends: {x: {url: 'http://a:99999/v1', dialect: openai}}", "1:21", "1 to 65535"},
	{"no URL", "backends: {x: {dialect: openai}}", "1:15", "want the key url"},
	{"bad dialect", "backends: {x: {url: http://a/v1, dialect: opena}}", "1:43", `did you mean "openai"?`},
	{"name with a slash", "backends: {x/y: {url: http://a/v1, dialect: openai}}", "1:12", "without / and *"},
	{"no time limit", "backends: {x: {url: http://a/v1, dialect: openai, timeouts: {idle: 0s}}}", "1:68", "at least 1ms"},
	{"off loopback without a token", "gateway: {listen: 0.0.0.0:4040}", "1:19", "add token: {env: NAME}"},
	{"every address without a token", "admin: {listen: ':4041'}", "1:17", "add token: {env: NAME}"},
	{"server off loopback without a token", "mcp: {servers: {s: {url: http://a/mcp, listen: '[::]:1'}}}", "1:48", "add token: {env: NAME}"},
	{"no port", "admin: {listen: 127.0.0.1}", "1:17", "want host:port"},
	{"port out of range", "admin: {listen: '127.0.0.1:70000'}", "1:17", "0 to 65535"},
	{"one address for two", "admin: {listen: 127.0.0.1:4040}", "1:17", "an address of its own"},
	{"server of both kinds", "mcp: {servers: {s: {command: [a], url: http://a/mcp}}}", "1:20", "have both"},
	{"server of no kind", "mcp: {servers: {s: {}}}", "1:20", "have neither"},
	{"deadline without a unit", "mcp: {servers: {s: {command: [a], deadline: 50}}}", "1:45", "say the unit: 50s"},
	{"a tool's deadline as text", "mcp: {servers: {s: {command: [a], deadline: {search: soon}}}}", "1:54", "want a duration"},
	{"command as text", "mcp: {servers: {s: {command: node x.js}}}", "1:30", "want a list"},
	{"bad store", "store: postgres://x/y", "1:8", "want file:///directory or redis://"},
	{"relative store", "store: file://state", "1:8", "three slashes"},
	{"database that is no number", "store: redis://h/x", "1:8", "database's number"},
	{"anchor", "quorum: &q 2", "1:9", "anchor or alias"},
	{"alias", "keep: *k", "1:7", "anchor or alias"},
	{"merge", "retry: {<<: {base: 1s}}", "1:9", "have a merge"},
	{"tag", "quorum: !!int 2", "1:9", "have a tag"},
	{"two documents", "quorum: 2\n---\nquorum: 3", "3:1", "want one document"},
	{"not YAML", "a: [1", "1:4", "is not valid YAML"},
	{"not text", "a: \xff", "1:1", "UTF-8"},
	{"control character", "a: \x01", "1:4", "control character 0x1"},
}

func TestEachMistakeIsOneErrorWithItsPlace(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(m.text))
			var errs Errors
			if !errors.As(err, &errs) || !errors.Is(err, ErrConfig) {
				t.Fatalf("have %v, want Errors", err)
			}
			if len(errs) != 1 {
				t.Fatalf("have %d errors, want one:\n%v", len(errs), err)
			}
			var one *Error
			if !errors.As(err, &one) || one != errs[0] {
				t.Errorf("errors.As finds %v", one)
			}
			if !strings.HasPrefix(err.Error(), "f.yaml:"+m.at+": ") || !strings.Contains(err.Error(), m.message) {
				t.Errorf("have %q, want it at %s, saying %q", err, m.at, m.message)
			}
		})
	}
}

func TestEveryMistakeIsReported(t *testing.T) {
	text := `quroum: 2
keep: 30d
circuits:
  model/*: {trip: [{streak: 0}, {count: 3}], cooldown: {after: 30s, calls: 2, jitter: 7}}
  model/*: {guard: off}
thrash: {repeats: 1}
backends:
  a: {url: nowhere, dialect: grpc}
routes:
  - {match: "*", backends: [b, a, a]}
`
	_, err := Parse("f.yaml", []byte(text))
	var errs Errors
	errors.As(err, &errs)
	var at []string
	for _, e := range errs {
		at = append(at, strings.TrimPrefix(e.Position.String(), "f.yaml:"))
	}
	want := "1:1 2:7 4:29 4:33 4:76 4:87 5:3 6:19 8:12 8:30 10:29 10:35"
	if got := strings.Join(at, " "); got != want {
		t.Errorf("have %s, want %s\n%v", got, want, err)
	}
}

func TestMistakesBelowALongNameAreFound(t *testing.T) {
	name := strings.Repeat("a/", 98) + "*"
	_, err := Parse("f.yaml", []byte("circuits: {"+name+": {cooldown: {after: 30s, calls: 2}}}"))
	if err == nil || !strings.Contains(err.Error(), "have both") {
		t.Errorf("have %v", err)
	}
	_, err = Parse("f.yaml", []byte("circuits: {"+name+": {cooldown: {after: 30s, max: 2s}}}"))
	if err == nil || !strings.Contains(err.Error(), "f.yaml:1:240: ") {
		t.Errorf("have %v", err)
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	const secret = "hunter2hunter2"
	for name, text := range map[string]string{
		"key as text":           "backends: {x: {url: http://a/v1, dialect: openai, key: " + secret + "}}",
		"token as text":         "gateway: {token: " + secret + "}",
		"token in a list":       "gateway: {token: [" + secret + "]}",
		"value for a variable":  "gateway: {token: {env: " + secret + "-}}",
		"value under value":     "gateway: {token: {value: " + secret + "}}",
		"value as a key":        "gateway: {token: {" + secret + "}}",
		"URL with a password":   "backends: {x: {url: 'http://u:" + secret + "@a/v1', dialect: openai}}",
		"bad URL with one":      "backends: {x: {url: 'http://u:" + secret + "@a b/v1', dialect: openai}}",
		"store with a password": "store: redis://u:" + secret + "@/0",
		"store of another kind": "store: postgres://u:" + secret + "@h/0",
		"bad YAML":              "gateway: {token: {env: [" + secret + "}",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(text))
			if err == nil || strings.Contains(err.Error(), secret) {
				t.Errorf("have %v", err)
			}
		})
	}
}

func TestHostileFilesAreRefused(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for _, c := range "bcdefghi" {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]\n"
	}
	for name, text := range map[string]string{
		"alias bomb":      bomb,
		"huge":            strings.Repeat("# padding\n", maxFile/10+1),
		"deep lists":      strings.Repeat("[", 100_000),
		"deep maps":       strings.Repeat("{a: ", 2000),
		"deep over lines": "a: " + strings.Repeat("[\n", 100_000),
		"dashes":          strings.Repeat("- ", 4000) + "x",
		"long line":       "a: " + strings.Repeat("x", maxLine),
		"long keys":       strings.Repeat("x", 8000) + ": {" + strings.Repeat("y,", 50) + "}",
		"many keys":       strings.Repeat("a:\n", 80_000),
		"many values":     "a: [" + strings.Repeat("x,", 3000) + strings.Repeat("\nx,", 9000) + "]",
		"many duplicates": "circuits:\n" + strings.Repeat("  a: {x: 1}\n", 2000),
		"tags":            strings.Repeat("!a\n", 100_000),
		"anchors":         strings.Repeat("&a\n", 100_000),
		"questions":       strings.Repeat("?\n", 100_000),
		"indentation":     indented(1200),
		"quotes":          strings.Repeat("a: \"x\n", 20_000),
		"zero bytes":      strings.Repeat("\x00", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("f.yaml", []byte(text)); err == nil {
				t.Error("read without a mistake")
			}
		})
	}
}

func indented(depth int) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	for _, m := range mistakes {
		f.Add([]byte(m.text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Parse("f.yaml", b)
		if err == nil {
			Check(c)
			c.Outcomes()
			c.Settings("model/local/x")
			return
		}
		var errs Errors
		if !errors.As(err, &errs) || len(errs) == 0 {
			t.Fatalf("have %v, want Errors", err)
		}
		for _, e := range errs {
			if e.Problem == "" || e.File != "f.yaml" {
				t.Errorf("an error without words or place: %#v", e)
			}
		}
	})
}
