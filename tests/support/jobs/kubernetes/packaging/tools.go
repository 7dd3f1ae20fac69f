//go:build tools

// Package tools pins what renders the deployment: helm and kustomize.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
	_ "sigs.k8s.io/kustomize/kustomize/v5"
)
