
import * as k8s from '@kubernetes/client-node';
const config = new k8s.KubeConfig();
config.loadFromFile(process.argv[2]);
const core = config.makeApiClient(k8s.CoreV1Api);
const storage = config.makeApiClient(k8s.StorageV1Api);
const names = (found) => found.items.map((item) => item.metadata.name).sort();
const watched = (path, count) => new Promise((done, failed) => {
  const found = [];
  let request;
  new k8s.Watch(config).watch(path, {}, (type, one) => {
    found.push(one.metadata.name);
    if (found.length === count) { request.then((r) => r.abort()); done(found.sort()); }
  }, (error) => { if (found.length < count) failed(error); }).then(
    (r) => { request = Promise.resolve(r); }, failed);
});
const spaces = names(await core.listNamespace());
const nodes = names(await core.listNode());
const classes = names(await storage.listStorageClass());
const maps = await core.listConfigMapForAllNamespaces();
console.log(JSON.stringify({
  namespaces: spaces, nodes, classes,
  configmaps: [...new Set(maps.items.map((item) => item.metadata.namespace))].sort(),
  watched: {
    namespaces: await watched('/api/v1/namespaces', spaces.length),
    nodes: await watched('/api/v1/nodes', nodes.length),
    classes: await watched('/apis/storage.k8s.io/v1/storageclasses', classes.length),
  },
}));
process.exit(0);
