// kubeconfig prints what client-go's clientcmd makes of kubeconfigs: where a request goes, what it carries, and which
// namespace it is for.
//
// Standard input: a JSON list of cases; standard output: a JSON list with an answer to each of them.
package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/net/http/httpguts"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
)

// Case is one invocation: environment variables, the working directory, and kubectl's options by their names.
type Case struct {
	Environment map[string]string `json:"environment"`
	Directory   string            `json:"directory"`
	Options     map[string]string `json:"options"`
}

// Answer is what comes of it; Error is empty where a request is sent.
type Answer struct {
	Error       string      `json:"error"`
	URL         string      `json:"url"`
	Headers     http.Header `json:"headers"`
	Authority   string      `json:"authority"`
	Certificate string      `json:"certificate"` // the leaf, DER in base64
	ServerName  string      `json:"serverName"`
	Insecure    bool        `json:"insecure"`
	Proxy       string      `json:"proxy"`
	Namespace   string      `json:"namespace"`
}

func main() {
	var cases []Case
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		panic(err)
	}
	path := os.Getenv("PATH")
	answers := make([]Answer, len(cases))
	for i, each := range cases {
		os.Clearenv()
		os.Setenv("PATH", path)
		for name, value := range each.Environment {
			os.Setenv(name, value)
		}
		if err := os.Chdir(each.Directory); err != nil {
			panic(err)
		}
		clientcmd.RecommendedHomeFile = filepath.Join(os.Getenv("HOME"), ".kube", "config")
		if err := answer(each.Options, &answers[i]); err != nil {
			answers[i] = Answer{Error: err.Error()}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}

func answer(options map[string]string, to *Answer) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = options["kubeconfig"]
	overrides := &clientcmd.ConfigOverrides{
		CurrentContext: options["context"],
		Context:        api.Context{Cluster: options["cluster"], AuthInfo: options["user"]},
		ClusterInfo:    api.Cluster{Server: options["server"]},
		AuthInfo:       api.AuthInfo{Impersonate: options["as"]},
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loaded.ClientConfig()
	if err != nil {
		return err
	}
	if to.Namespace, _, err = loaded.Namespace(); err != nil {
		return err
	}
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	if address.Scheme != "http" && address.Scheme != "https" {
		return fmt.Errorf("unsupported protocol scheme %q", address.Scheme) // net/http's own
	}
	to.URL = address.String()
	return request(config, address, to)
}

// request finds out what a request carries, without sending it.
func request(config *rest.Config, address *url.URL, to *Answer) error {
	settings, err := config.TransportConfig()
	if err != nil {
		return err
	}
	tls, err := transport.TLSConfigFor(settings)
	if err != nil {
		return err
	}
	if tls != nil {
		to.Authority, to.ServerName, to.Insecure = string(settings.TLS.CAData), tls.ServerName, tls.InsecureSkipVerify
	}
	if tls != nil && tls.GetClientCertificate != nil {
		certificate, err := tls.GetClientCertificate(nil)
		if err != nil {
			return err
		}
		if len(certificate.Certificate) > 0 {
			to.Certificate = base64.StdEncoding.EncodeToString(certificate.Certificate[0])
		}
	}
	sent := errors.New("sent")
	wrapped, err := transport.HTTPWrappersForConfig(settings, carrier(func(request *http.Request) error {
		to.Headers = request.Header
		return sent
	}))
	if err != nil {
		return err
	}
	asked := &http.Request{Method: http.MethodGet, URL: address, Header: http.Header{}}
	if settings.Proxy != nil {
		proxy, err := settings.Proxy(asked)
		if err != nil {
			return err
		}
		to.Proxy = proxy.String()
	}
	if _, err := wrapped.RoundTrip(asked); !errors.Is(err, sent) {
		return err
	}
	if password, _ := address.User.Password(); address.User != nil && to.Headers.Get("Authorization") == "" {
		asked = &http.Request{Header: to.Headers}
		asked.SetBasicAuth(address.User.Username(), password) // net/http's own
	}
	for name, values := range to.Headers {
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("invalid header field value for %q", name) // net/http's own
			}
		}
	}
	return nil
}

type carrier func(*http.Request) error

func (carry carrier) RoundTrip(request *http.Request) (*http.Response, error) {
	return nil, carry(request)
}
