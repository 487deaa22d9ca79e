// Command argocache fills Argo CD's cluster cache and says, on each line that it reads, what is in it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/argoproj/gitops-engine/pkg/cache"
	"github.com/argoproj/gitops-engine/pkg/utils/kube"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	fail(err)
	config.QPS, config.Burst = 200, 400
	options := []cache.UpdateSettingsFunc{cache.SetRespectRBAC(cache.RespectRbacNormal)}
	if len(os.Args) > 3 && os.Args[3] != "" {
		options = append(options, cache.SetNamespaces(strings.Split(os.Args[3], ",")))
	}
	if os.Args[2] != "" {
		kinds := map[schema.GroupKind]bool{}
		for _, word := range strings.Split(os.Args[2], ",") {
			group, kind, _ := strings.Cut(word, "/")
			kinds[schema.GroupKind{Group: group, Kind: kind}] = true
		}
		options = append(options, cache.SetSettings(cache.Settings{ResourcesFilter: only(kinds)}))
	}
	made := cache.NewClusterCache(config, options...)
	fail(made.EnsureSynced())
	lines := bufio.NewScanner(os.Stdin)
	for {
		found := map[string][]string{}
		for key := range made.FindResources("") {
			found[key.Kind] = append(found[key.Kind], key.Namespace+"/"+key.Name)
		}
		for _, names := range found {
			sort.Strings(names)
		}
		out, _ := json.Marshal(found)
		fmt.Println(string(out))
		if !lines.Scan() {
			return
		}
	}
}

type only map[schema.GroupKind]bool

func (o only) IsExcludedResource(group, kind, _ string) bool {
	return !o[schema.GroupKind{Group: group, Kind: kind}]
}

var _ kube.ResourceFilter = only{}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
