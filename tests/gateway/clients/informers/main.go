// Command informers fills client-go's informers, typed, dynamic and of metadata, and says, on each
// line that it reads, what is in them.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	fail(err)
	config.QPS, config.Burst = 200, 400
	binary := *config
	binary.ContentType = "application/vnd.kubernetes.protobuf"
	binary.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	typed := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(&binary), 0)
	plain := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
	heads := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(config), 0)
	kinds := map[string]schema.GroupVersionResource{
		"namespaces":     {Version: "v1", Resource: "namespaces"},
		"nodes":          {Version: "v1", Resource: "nodes"},
		"storageclasses": {Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
		"configmaps":     {Version: "v1", Resource: "configmaps"},
		"pods":           {Version: "v1", Resource: "pods"},
	}
	all := map[string]cache.SharedIndexInformer{}
	for name, kind := range kinds {
		found, err := typed.ForResource(kind)
		fail(err)
		all["typed "+name] = found.Informer()
		all["dynamic "+name] = plain.ForResource(kind).Informer()
		all["metadata "+name] = heads.ForResource(kind).Informer()
	}
	stop := make(chan struct{})
	typed.Start(stop)
	plain.Start(stop)
	heads.Start(stop)
	time.AfterFunc(40*time.Second, func() { fail(fmt.Errorf("not synced in time")) })
	for _, one := range all {
		if !cache.WaitForCacheSync(stop, one.HasSynced) {
			fail(fmt.Errorf("not synced"))
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for {
		found := map[string][]string{}
		for name, one := range all {
			names := []string{}
			for _, thing := range one.GetStore().List() {
				accessor, err := meta.Accessor(thing)
				fail(err)
				names = append(names, accessor.GetNamespace()+"/"+accessor.GetName())
			}
			sort.Strings(names)
			found[name] = names
		}
		out, _ := json.Marshal(found)
		fmt.Println(string(out))
		if !lines.Scan() {
			return
		}
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
