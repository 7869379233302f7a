package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// How long one connection is waited for. What fails is tried again for as long
// as a report has patience.
const (
	dialTimeout  = 500 * time.Millisecond
	replyTimeout = 500 * time.Millisecond
)

// address is what a store's URL says.
type address struct {
	text   string // without user and password, for errors
	prefix string // of every key
	option rueidis.ClientOption
}

// parseAddress reads a store's URL; see [Config]. Its errors never hold a
// password.
func parseAddress(text string) (*address, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("redisstore: want redis://host:6379/0, have something that is no URL")
	}
	text = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String() // all else may hold a secret
	if u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "" {
		return nil, fmt.Errorf("redisstore: want redis://host:6379/0 or rediss://host:6379/0, have %q", text)
	}
	a := &address{
		text: text,
		option: rueidis.ClientOption{
			InitAddress:       []string{hostPort(u.Host)},
			ClientName:        "fusebox",
			Dialer:            net.Dialer{Timeout: dialTimeout},
			ConnWriteTimeout:  replyTimeout,
			PipelineMultiplex: -1, // one connection
			RingScaleEachConn: 8,
			// What is sent again bears the same IDs, and only we know them.
			DisableRetry: true,
			DisableCache: true,
			// Commands are few and small.
			ReadBufferEachConn:  64 << 10,
			WriteBufferEachConn: 64 << 10,
		},
	}
	o := &a.option
	o.Sentinel.Dialer = o.Dialer
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if o.SelectDB, err = strconv.Atoi(db); err != nil || o.SelectDB < 0 {
			return nil, fmt.Errorf("redisstore: %s: want a database's number after the host, have %q", a.text, db)
		}
	}
	if err := a.parameters(u); err != nil {
		return nil, fmt.Errorf("redisstore: %s: %w", a.text, err)
	}
	return a, nil
}

// parameters reads what follows the question mark.
func (a *address) parameters(u *url.URL) error {
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("the parameters after ? cannot be read")
	}
	known := map[string]func(values []string) error{
		"addr": func(values []string) error {
			for _, value := range values {
				if strings.Contains(value, "@") {
					return errors.New("addr: want HOST:PORT; user and password are those before the first host")
				}
				a.option.InitAddress = append(a.option.InitAddress, hostPort(value))
			}
			return nil
		},
		"prefix": func(values []string) error {
			a.prefix = values[0]
			return nil
		},
		"sentinel": func(values []string) error {
			a.option.Sentinel.MasterSet = values[0]
			a.option.Sentinel.TopologyRefreshInterval = 5 * time.Second
			return nil
		},
		"sentinel_auth": func(values []string) error {
			same, err := strconv.ParseBool(values[0])
			if err != nil {
				return fmt.Errorf("sentinel_auth: want true or false, have %q", values[0])
			}
			if same {
				a.option.Sentinel.Username, a.option.Sentinel.Password = a.option.Username, a.option.Password
			}
			return nil
		},
	}
	files := map[string]string{}
	for _, name := range []string{"ca", "cert", "key", "server_name"} {
		known[name] = func(values []string) error {
			files[name] = values[0]
			return nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		read := known[name]
		if read == nil {
			return fmt.Errorf("no such parameter: %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if err := read(given[name]); err != nil {
			return err
		}
	}
	return a.encrypt(u, files)
}

// encrypt sets up TLS for rediss: from files in the PEM form.
func (a *address) encrypt(u *url.URL, files map[string]string) error {
	if u.Scheme != "rediss" {
		if len(files) > 0 {
			return errors.New("ca, cert, key and server_name go with rediss://")
		}
		return nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: files["server_name"]}
	if path := files["ca"]; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("ca: %s holds no certificate", path)
		}
	}
	if (files["cert"] == "") != (files["key"] == "") {
		return errors.New("cert and key go together")
	}
	if files["cert"] != "" {
		pair, err := tls.LoadX509KeyPair(files["cert"], files["key"])
		if err != nil {
			return fmt.Errorf("cert and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	a.option.TLSConfig = c
	if a.option.Sentinel.MasterSet != "" {
		a.option.Sentinel.TLSConfig = c
	}
	return nil
}

// hostPort adds the usual port where none is given.
func hostPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), "6379")
}
