package main

// object is one of the API, in JSON.
type object = map[string]any

// share is what a pod of the test asks for.
type share struct {
	name    string
	memory  int64 // bytes
	compute int   // thousandths
	// parameters, unless they are nil, are the claim's for the driver.
	parameters object
}

// Paths of the API in the test's namespace.
const (
	podsPath      = "/api/v1/namespaces/default/pods"
	eventsPath    = "/api/v1/namespaces/default/events"
	claimsPath    = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
	templatesPath = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
	classesPath   = "/apis/resource.k8s.io/v1/deviceclasses"
	slicesPath    = "/apis/resource.k8s.io/v1/resourceslices"
)

// spec is that of a claim of one part.
func (s *share) spec(class string) object {
	devices := object{"requests": []object{{"name": "gpu", "exactly": object{
		"deviceClassName": class, "capacity": object{"requests": object{
			"memory": number(s.memory), "compute": milli(s.compute)}}}}}}
	if s.parameters != nil {
		devices["config"] = []object{{"opaque": object{"driver": "gpu.weir.dev",
			"parameters": s.parameters}}}
	}
	return object{"devices": devices}
}

func (s *share) template(class string) object {
	return object{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
		"metadata": object{"name": s.name}, "spec": object{"spec": s.spec(class)}}
}

func (s *share) claim(class string) object {
	return object{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
		"metadata": object{"name": s.name}, "spec": s.spec(class)}
}

// pod is one that works on a device; resources are its container's.
func pod(name string, spec, resources object) object {
	s := object{"restartPolicy": "Always", "terminationGracePeriodSeconds": 1,
		"automountServiceAccountToken": false,
		"containers": []object{{"name": "work", "image": podImage,
			"command": []string{"/pod", "work", kernelText}, "resources": resources}}}
	for k, v := range spec {
		s[k] = v
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name,
		"labels": object{"test": "weir"}}, "spec": s}
}

// claimPod is a pod with a claim of its template's name.
func claimPod(name string) object {
	return pod(name, object{"resourceClaims": []object{{"name": "gpu",
		"resourceClaimTemplateName": name}}}, object{"claims": []object{{"name": "gpu"}}})
}
