package source

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/weirgpu/weir/server/repo"
)

// oci is a model in a registry (OCI Distribution 1.1): an artifact whose layers are its files, each
// with its path as its title, as `oras push` makes it.
//
// Where the address names neither a tag nor a digest, tags that are whole numbers are versions of
// the model, and its other files are those of the newest; without such tags it is the tag latest.
type oci struct {
	address string
	repo    *remote.Repository
	name    string // of the model
	ref     string // a tag or digest; "" for all versions

	mu    sync.Mutex
	known map[digest.Digest][]File // of artifacts that were read, while they are asked for
}

// The annotations that hold the path of a layer's file.
const (
	titleOfModelPack = "org.cncf.model.filepath" // CNCF's ModelPack, model-spec 0.0.x
	unpackOfOras     = "io.deis.oras.content.unpack"
)

// mostManifest is how long a manifest may be.
const mostManifest = 4 << 20

func parseOCI(address, rest string) (Remote, error) {
	repo, err := remote.NewRepository(rest)
	if err == nil && strings.HasSuffix(rest, ":") {
		err = errors.New("an empty tag")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %.200q: %w: give oci://HOST[:PORT]/REPOSITORY[:TAG|@DIGEST]",
			ErrAddress, address, err)
	}
	host, _, err := net.SplitHostPort(repo.Reference.Host())
	if err != nil {
		host = repo.Reference.Host()
	}
	repo.PlainHTTP = host == "localhost" || net.ParseIP(strings.Trim(host, "[]")).IsLoopback()
	repo.TagListMaxPages = mostPages
	asks := &auth.Client{Client: client(strings.Trim(host, "[]")), Cache: auth.NewCache()}
	if store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{}); err == nil {
		asks.Credential = credentials.Credential(store)
	}
	if repo.PlainHTTP {
		asks.BlockedRealmPrefixes = []netip.Prefix{} // who gives its tokens may be here too
	}
	repo.Client = asks
	return &oci{address: address, repo: repo, name: path.Base(repo.Reference.Repository),
		ref: repo.Reference.Reference}, nil
}

func (o *oci) String() string { return o.address }

// Names implements [Remote].
func (o *oci) Names(ctx context.Context) ([]string, error) {
	if _, err := o.refs(ctx); err != nil {
		return nil, err
	}
	return []string{o.name}, nil
}

// refs are the tags or the digest whose artifacts make the model, with the version that each is; 0
// where it is the whole model.
func (o *oci) refs(ctx context.Context) (map[int64]string, error) {
	if o.ref != "" {
		return map[int64]string{0: o.ref}, nil
	}
	versions := map[int64]string{}
	latest := false
	err := o.repo.Tags(ctx, "", func(tags []string) error {
		for _, tag := range tags {
			latest = latest || tag == "latest"
			n, ok := repo.Number(tag)
			if ok {
				versions[n] = tag
			}
		}
		if len(versions) > mostFiles {
			return fmt.Errorf("%w: more than %d versions", ErrLayout, mostFiles)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, o.failed(err)
	case len(versions) > 0:
		return versions, nil
	case latest:
		return map[int64]string{0: "latest"}, nil
	}
	return nil, fmt.Errorf("%s: no tag is a whole number, and none is latest: name one: %w",
		o.address, fs.ErrNotExist)
}

// Files implements [Remote].
func (o *oci) Files(ctx context.Context, model string) ([]File, error) {
	if model != o.name {
		return nil, fmt.Errorf("%s: model %.200q: %w", o.address, model, fs.ErrNotExist)
	}
	refs, err := o.refs(ctx)
	if err != nil {
		return nil, err
	}
	var numbers []int64
	for n := range refs {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	all, known := map[string]File{}, map[digest.Digest][]File{}
	for _, n := range numbers { // the newest last, whose files beside the versions stay
		layers, err := o.artifact(ctx, refs[n], known)
		if err != nil {
			return nil, fmt.Errorf("%s, tag or digest %s: %w", o.address, refs[n], err)
		}
		if err := place(all, layers, versionOf(n, refs[n])); err != nil {
			return nil, fmt.Errorf("%s, tag or digest %s: %w", o.address, refs[n], err)
		}
	}
	var list []File
	for _, f := range all {
		list = append(list, f)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = known
	return list, nil
}

// versionOf is the version that the files of an artifact are which name none: that of the tag, and
// 1 where that is no number.
func versionOf(n int64, ref string) int64 {
	if n > 0 {
		return n
	}
	if n, ok := repo.Number(ref); ok {
		return n
	}
	return 1
}

// artifact are the files of one, which are noted in known. Its manifest is read once: what a tag is
// now is asked by HEAD, which registries do not count as a pull, and of a digest nothing is asked.
func (o *oci) artifact(ctx context.Context, ref string, known map[digest.Digest][]File) (
	list []File, err error) {
	of := digest.Digest(ref)
	if of.Validate() != nil {
		desc, err := o.repo.Resolve(ctx, ref)
		if errors.Is(err, errdef.ErrNotFound) {
			return nil, o.failed(err)
		}
		of = desc.Digest // "" of a registry that does not say it
	}
	o.mu.Lock()
	list = o.known[of]
	o.mu.Unlock()
	if list == nil {
		of, list, err = o.manifest(ctx, cmp.Or(of.String(), ref))
	}
	known[of] = list
	return list, err
}

// manifest is the digest of one, and the files that it names.
func (o *oci) manifest(ctx context.Context, ref string) (of digest.Digest, list []File, err error) {
	desc, body, err := o.repo.FetchReference(ctx, ref)
	if err != nil {
		return "", nil, o.failed(err)
	}
	defer body.Close()
	if desc.Size > mostManifest {
		return "", nil, fmt.Errorf("%w: a manifest of %d bytes", ErrLayout, desc.Size)
	}
	text, err := content.ReadAll(body, desc) // which holds it against its digest
	if err != nil {
		return "", nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return "", nil, fmt.Errorf("%w: its manifest: %w", ErrLayout, err)
	}
	if len(m.Layers) == 0 {
		return "", nil, fmt.Errorf("%w: its manifest (%.100s) has no layers", ErrLayout,
			desc.MediaType)
	}
	for _, l := range m.Layers {
		f, err := o.file(&l)
		if err != nil {
			return "", nil, err
		}
		list = append(list, f)
	}
	return desc.Digest, list, nil
}

// file is that of a layer.
func (o *oci) file(l *ocispec.Descriptor) (f File, err error) {
	f = File{Path: l.Annotations[ocispec.AnnotationTitle], Size: l.Size, Mark: string(l.Digest),
		key: string(l.Digest)}
	if f.Path == "" {
		f.Path = l.Annotations[titleOfModelPack]
	}
	packed := l.Annotations[unpackOfOras] == "true" || strings.Contains(l.MediaType, ".tar")
	switch {
	case f.Path == "" || packed:
		return f, fmt.Errorf("%w: layer %s (%.100s, %q) is no file with a title: push files by "+
			"their paths, such as oras push %s:1 1/model.onnx config.pbtxt", ErrLayout, l.Digest,
			l.MediaType, f.Path, o.repo.Reference.Repository)
	case l.Digest.Validate() != nil || l.Size < 0:
		return f, fmt.Errorf("%w: layer %.100q has no digest or size", ErrLayout, f.Path)
	}
	return f, nil
}

// place adds the files of an artifact to those of a model. Where none of them lies in the folder of
// a version they are those of one, but for the model's configuration and its texts.
func place(all map[string]File, files []File, version int64) error {
	laid := slices.ContainsFunc(files, func(f File) bool {
		folder, _, _ := strings.Cut(f.Path, "/")
		_, ok := repo.Number(folder)
		return ok
	})
	for _, f := range files {
		if !laid && f.Path != "config.pbtxt" && path.Ext(f.Path) != ".txt" {
			f.Path = strconv.FormatInt(version, 10) + "/" + f.Path
		}
		if !local(f.Path) {
			return fmt.Errorf("%w: %.200q is no path in a model's folder", ErrLayout, f.Path)
		}
		all[f.Path] = f
		if len(all) > mostFiles {
			return fmt.Errorf("%w: more than %d files", ErrLayout, mostFiles)
		}
	}
	return nil
}

// Open implements [Remote].
func (o *oci) Open(ctx context.Context, f *File) (io.ReadCloser, error) {
	l := ocispec.Descriptor{Digest: digest.Digest(f.key), Size: f.Size}
	body, err := o.repo.Blobs().Fetch(ctx, l)
	if err != nil {
		return nil, o.failed(err)
	}
	s := &sized{body, o.address + ": " + f.Path, f.Size}
	return &verified{s, content.NewVerifyReader(s, l)}, nil
}

// verified is a body that is held against its digest at its end.
type verified struct {
	io.Closer
	of *content.VerifyReader
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.of.Read(p)
	if err == io.EOF {
		if bad := v.of.Verify(); bad != nil {
			return n, fmt.Errorf("%w: %w", ErrContent, bad)
		}
	}
	return n, err
}

// failed says what a registry answered.
func (o *oci) failed(err error) error {
	if errors.Is(err, errdef.ErrNotFound) {
		err = fmt.Errorf("%w (%w)", fs.ErrNotExist, err)
	}
	return fmt.Errorf("%s: %w", o.address, unsaid{err})
}
