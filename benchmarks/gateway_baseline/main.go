// A reverse proxy from Go's standard library, as the gateway's yardstick.
//
// Tuned, it keeps as many connections as it needs. With -reviews N it is a model of a proxy that
// asks the API server N times about the caller's token before each request, on the default pool.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	server := flag.String("server", "", "API server")
	ca := flag.String("ca", "", "authority of the API server")
	cert := flag.String("cert", "", "serving certificate")
	key := flag.String("key", "", "its key")
	tokenFile := flag.String("token", "", "own token, for reviews")
	reviews := flag.Int("reviews", 0, "token reviews per request")
	flag.Parse()

	target, err := url.Parse(*server)
	fatal(err)
	pem, err := os.ReadFile(*ca)
	fatal(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		// Or it asks for gzip where the client did not, and unpacks it: another answer to carry.
		DisableCompression: true,
	}
	if *reviews == 0 {
		transport.MaxIdleConnsPerHost = 1024
	}
	own := ""
	if *tokenFile != "" {
		raw, err := os.ReadFile(*tokenFile)
		fatal(err)
		own = strings.TrimSpace(string(raw))
	}
	proxy := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.SetXForwarded()
		},
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		for i := 0; i < *reviews; i++ {
			if !review(transport, *server, own, token) {
				http.Error(w, "forbidden", http.StatusForbidden)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	})
	log.Fatal((&http.Server{Addr: *listen, Handler: handler}).ListenAndServeTLS(*cert, *key))
}

func review(transport *http.Transport, server, own, token string) bool {
	body, _ := json.Marshal(map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
		"spec": map[string]string{"token": token},
	})
	request, _ := http.NewRequest("POST", server+"/apis/authentication.k8s.io/v1/tokenreviews", bytes.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+own)
	request.Header.Set("Content-Type", "application/json")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(response.Body)
	return bytes.Contains(raw, []byte(`"authenticated":true`))
}

func fatal(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
